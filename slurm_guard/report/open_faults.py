"""What is open on a node, since when, what the guard did about it, why not more, and what happens next."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from slurm_guard.core import reason as reasons
from slurm_guard.core.policy import DRAIN_TIERS
from slurm_guard.report.actions import events, sentence
from slurm_guard.report.layout import iso, span, unix, when, wrap
from slurm_guard.store import fleet, queries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from slurm_guard.report.actions import Event
    from slurm_guard.report.outlook import Slurm
    from slurm_guard.store import Store
    from slurm_guard.store.model import FindingRow, NodeState

#: How far back the first sighting of a fault is looked for.
_BACK_MS = 30 * 86_400_000
#: Sightings that are further apart than this are two faults, not one.
_APART_MS = 4 * fleet.SILENCE_MS
_MOST = 5_000
_ACTIONS = ("drain", "refuse", "resume")
_FINDING = (
    "fault", "status", "device", "device_id", "message", "tier", "blame", "scope", "event", "remedy",
)  # fmt: skip


def finding_of(one: FindingRow) -> dict[str, Any]:
    """A finding as the reports on nodes show it."""
    return {"at": iso(one.at), **{name: getattr(one, name) for name in _FINDING}}


class Trouble:
    """What is wrong with a node and what was done about it since it was last put back in service by us.

    `slurm` is what Slurm said of its nodes, which counts for more than the records where it told.
    """

    def __init__(self, store: Store, state: NodeState, slurm: Slurm) -> None:
        self.state = state
        told = slurm.nodes.get(state.node)
        self.out = slurm.is_out(state.node)
        #: The reason that stands in Slurm, None if it did not tell.
        self.standing = None if told is None else reasons.strip_slurms_additions(told.reason)
        last = state.last.started if state.last is not None else 0
        with store.read() as connection:
            numbers = list(queries.node_numbers(connection, [state.node], state.cluster).values())
            since = last - _BACK_MS
            rows = queries.actions(connection, nodes=numbers, names=_ACTIONS, since=since, most=_MOST)
            seen = (
                queries.findings(connection, nodes=numbers, since=since, most=_MOST)
                if state.open_faults
                else []
            )
            found = events(rows)
            resumed = [n for n, one in enumerate(found) if one.action == "resume" and one.outcome == "done"]
            self.done = found[resumed[-1] + 1 :] if resumed else found
            back = [found[number].at for number in resumed]
            self._streaks = [_streak(connection, fault, seen, back) for fault in state.open_faults]

    def drain(self) -> Event | None:
        """The drain or refusal that took the node out of service, if that was us.

        Somebody may have put the node back and out again since: the reason that stands says whose it is.
        """
        ours = [one for one in reversed(self.done) if one.outcome == "done" and one.action != "resume"]
        return next((one for one in ours if self.standing is None or _stands(one, self.standing)), None)

    def open_faults(self) -> list[dict[str, Any]]:
        """The open faults with `since`, `times` (seen), `guard` (what it did, at `guard_at`) and `next`."""
        pairs = zip(self.state.open_faults, self._streaks, strict=True)
        gravest_first = sorted(pairs, key=lambda pair: pair[0].tier not in DRAIN_TIERS)
        return [self._one(fault, streak) for fault, streak in gravest_first]

    def _one(self, fault: FindingRow, streak: Sequence[FindingRow]) -> dict[str, Any]:
        event = next((one for one in reversed(self.done) if _same(one, fault)), None)
        guard, follows = _guard(self, fault, event)
        oldest = streak[-1] if streak else fault
        return {
            **finding_of(fault),
            "since": iso(oldest.at),
            "times": len(streak),
            "switched_off": _decision(self.state, fault).get("mode") == "off",
            "guard": guard,
            "guard_at": iso(event.at) if event is not None else None,
            "next": follows,
        }


def _same(one: FindingRow | Event, fault: FindingRow) -> bool:
    return (one.fault, one.device) == (fault.fault, fault.device)


def _stands(one: Event, standing: str) -> bool:
    """True if a reason that stands is that of a drain of ours, if need be with a person's words behind it.

    Slurm's own words stand where our refusal drained the node and our reason could not be written.
    """
    if one.action == "refuse" and standing.lower() == "prolog error":
        return True
    return bool(one.reason) and (standing + " ").startswith(f"{one.reason} ")


def _streak(
    connection: Connection, fault: FindingRow, findings: list[FindingRow], back: list[int]
) -> list[FindingRow]:
    """The sightings of a fault, newest first, back to where it was not seen for long, or its check passed, or
    the node came `back` into service.
    """
    seen = [one for one in findings if _same(one, fault)]
    since = max((at for at in back if seen and at <= seen[0].at), default=0)
    seen = [one for one in seen if one.at >= since]
    for number, (one, earlier) in enumerate(pairwise(seen), 1):
        if one.at - earlier.at > _APART_MS:
            seen = seen[:number]
            break
    if fault.event or not seen:
        return seen  # no later run sees an event again
    passed = queries.last_pass(connection, fault.node_id, fault.check, seen[-1].at, seen[0].at)
    return [one for one in seen if passed is None or one.at > passed]


def _guard(trouble: Trouble, fault: FindingRow, event: Event | None) -> tuple[str, str | None]:
    """What the guard did about a fault, and what happens next; None where the node's own outlook says it."""
    state, done = trouble.state, trouble.done
    if fault.tier not in DRAIN_TIERS:
        return f"recorded only: tier {fault.tier or 'NOTE'} is never drained for", None
    by_hand = f"`sguard drain {state.node} {fault.fault}" + (
        f" --device {fault.device}`" if fault.device else "`"
    )
    if event is not None:
        return sentence(event.as_dict()), _after(event, by_hand, trouble.out)
    if trouble.out or (state.drained_by is not None and trouble.out is None):
        reason = trouble.standing or (state.drained_by.reason if state.drained_by is not None else "")
        return f"nothing more: the node is drained already, {reason or 'without a reason'}", None
    if done:
        graver = f"{done[-1].fault} {done[-1].device}".strip()
        return f"nothing more: one drain is enough for a node, and it is asked for {graver}", None
    decision = _decision(state, fault)
    follows = "nothing by itself in mode off" if decision.get("mode") == "off" else "every run decides anew"
    return _decided(decision), f"{follows}; by hand: {by_hand}"


def _after(event: Event, by_hand: str, out: bool | None) -> str | None:
    """What follows an action."""
    if event.outcome == "done":
        put_back = f"somebody put the node back in service while this is open; repair it, or {by_hand}"
        return put_back if out is False else None
    if event.outcome == "observed":
        return f"nothing by itself in mode observe; by hand: {by_hand}"
    return f"asked again at every healthcheck; by hand: {by_hand}"


def _decision(state: NodeState, fault: FindingRow) -> dict[str, Any]:
    """What the last run decided about a fault; empty if it did not."""
    for one in state.last.decisions if state.last is not None else ():
        if (one.get("fault"), one.get("device") or "") == (fault.fault, fault.device):
            return one
    return {}


def _decided(decision: dict[str, Any]) -> str:
    """Why the last run did nothing, in the words of its decision."""
    if not decision:
        return "nothing on record: no run decided about it"
    did = f"decided to {decision.get('action')}"
    if decision.get("mode") == "observe":
        did += " (mode observe)"
    elif decision.get("mode") == "off":
        did = "nothing"
    elif decision.get("action") == "tell":
        did = "nothing yet"
    return f"{did}: {decision.get('why') or 'no reason on record'}"


def fault_lines(one: dict[str, Any], now: int, width: int, indent: str, *, guard: bool = True) -> list[str]:
    """An open fault for whoever is on call: what, since when, what the guard did, what comes next, repair."""
    since, more = unix(one["since"]) or now, indent + "  "
    name = f"{one['fault']} {one['device']}".strip()
    seen = f"{one['times']} runs" if one["times"] != 1 else "1 run"
    lines = wrap(
        f"{name}, {one['status']} since {when(since)} ({span(now - since)}, {seen})", width, indent, more
    )
    told = one["message"]
    lines += wrap(told, width, more) if told else []
    if guard:
        at = f"{when(unix(one['guard_at']), date=False)} " if one["guard_at"] else ""
        lines += wrap(f"guard: {at}{one['guard']}", width, more, more + "  ")
        lines += wrap(f"next: {one['next']}", width, more, more + "  ") if one["next"] else []
    lines += wrap(f"remedy: {one['remedy']}", width, more, more + "  ") if one["remedy"] else []
    return lines
