"""The faults of one node, followed run by run: when each began, was seen last, and was proven gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_guard.core.policy import TIERS
from slurm_guard.store.incident_model import BUDGET, SHARED, Member
from slurm_guard.store.marks import PACED, ActionMark, MovedMark, RunMark, Sighting

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slurm_guard.store.marks import EndMark, Mark

#: So many runs in a row must judge the check and not see the fault; as many as before a return to service.
CLEAN_RUNS = 3
#: Healthchecks come at the site's pace, and each counts. Prologs may come three a minute and prove nothing:
#: they count so far apart only.
APART_MS = 5 * 60_000
NEW_MACHINE = "same name on a new machine"


class Tracker:
    """Takes in the marks of one node in order of time. Pure: members in, members out.

    `open` are those that go on, by (fault, device); `made` are those that began here; `turned` are those of
    either kind that began, ended or grew graver, by identity.
    """

    def __init__(self, node: str, cluster: str, going: Iterable[Member] = ()) -> None:
        self.node, self.cluster = node, cluster
        self.open = {(one.fault, one.device): one for one in going}
        self.made: list[Member] = []
        self.touched: dict[int, Member] = {}
        self.turned: dict[int, Member] = {}

    def feed(self, mark: Mark) -> None:
        """Take in the next mark."""
        if isinstance(mark, RunMark):
            self._run(mark)
        elif isinstance(mark, ActionMark):
            self._action(mark)
        elif isinstance(mark, MovedMark):
            for one in list(self.open.values()):
                self._end(one, mark.at, f"on record as a node of cluster {mark.cluster} since")
        else:
            self._end_of(mark)

    def _run(self, mark: RunMark) -> None:
        for one in list(self.open.values()):
            if _is_other_machine(one, mark):
                self._end(one, mark.at, NEW_MACHINE)
        for sighting in mark.seen.values():
            self._see(sighting, mark)
        for name, one in list(self.open.items()):
            if name not in mark.seen and (one.check in mark.judged or one.check == BUDGET):
                self._clean(one, mark)

    def _see(self, sighting: Sighting, mark: RunMark | ActionMark) -> None:
        one = self.open.get((sighting.fault, sighting.device))
        if one is None:
            one = self._begin(sighting, mark)
        else:
            one.last_seen, one.count, one.clean, one.clean_at = mark.at, one.count + 1, 0, 0
            one.excused = False
            if _rank(sighting.tier) > _rank(one.tier):
                one.tier = sighting.tier
                self.turned[id(one)] = one
        if isinstance(mark, RunMark):
            one.event = sighting.event
            one.boot, one.machine_id, one.serial = mark.boot, mark.machine_id, mark.serial
        self.touched[id(one)] = one

    def _begin(self, sighting: Sighting, mark: RunMark | ActionMark) -> Member:
        one = Member(
            node_id=mark.node_id,
            node=self.node,
            cluster=self.cluster,
            fault=sighting.fault,
            device=sighting.device,
            first_seen=mark.at,
            last_seen=mark.at,
            scope=sighting.scope,
            tier=sighting.tier,
            message=sighting.message,
        )
        self.open[one.fault, one.device] = one
        self.made.append(one)
        self.turned[id(one)] = one
        return one

    def _clean(self, one: Member, mark: RunMark) -> None:
        """A run that judged the check and saw nothing: proof for a state, and for an event after a reboot."""
        booted = mark.boot != one.boot and bool(mark.boot and one.boot)
        if one.event and not one.excused and not booted:
            return
        if mark.hook not in PACED and mark.at - max(one.last_seen, one.clean_at) < APART_MS:
            return
        one.clean, one.clean_at = one.clean + 1, mark.at
        self.touched[id(one)] = one
        if one.clean >= CLEAN_RUNS:
            after = (" after a reboot" if booted else " after the node was put back") if one.event else ""
            self._end(one, mark.at, f"{CLEAN_RUNS} clean runs{after}")

    def _action(self, mark: ActionMark) -> None:
        if mark.outcome == "held":
            fault = f"{BUDGET}.{mark.limit}"
            self._see(Sighting(fault, mark.limit, SHARED, "", mark.why, False), mark)
        elif mark.action == "resume":
            for one in self.open.values():
                if one.event:
                    one.excused = True
                    self.touched[id(one)] = one
        else:
            for one in [other for other in self.open.values() if other.check == BUDGET]:
                self._end(one, mark.at, "there was room: the node was taken out of service")

    def _end_of(self, mark: EndMark) -> None:
        one = self.open.get((mark.fault, mark.device))
        if one is not None:
            self._end(one, mark.at, mark.why)

    def _end(self, one: Member, at: int, why: str) -> None:
        one.ended, one.why = at, why
        del self.open[one.fault, one.device]
        self.touched[id(one)] = self.turned[id(one)] = one


def _rank(tier: str) -> int:
    return TIERS.index(tier) if tier in TIERS else -1


def graver(members: Iterable[Member]) -> str:
    """The gravest tier among members."""
    return max((one.tier for one in members), key=_rank, default="")


def _is_other_machine(one: Member, mark: RunMark) -> bool:
    """The serial decides where both are known: cloned images share a machine id, new ones get another."""
    if one.serial and mark.serial:
        return one.serial != mark.serial
    return bool(one.machine_id and mark.machine_id) and one.machine_id != mark.machine_id
