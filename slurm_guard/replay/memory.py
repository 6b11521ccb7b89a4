"""What the guard on one node remembers from run to run, kept as its files would hold it.

The parts are the engine's own (open faults, runs seen, sightings, returns) and so is `decide`; here is only
the order in which a hook asks them, as in engine/weigh.py.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from slurm_guard.core import reason as reasons
from slurm_guard.core.outcome import FAIL, TIMEOUT, UNKNOWN, Finding
from slurm_guard.core.policy import Decision, History, decide
from slurm_guard.engine.clock import iso
from slurm_guard.engine.faults import OpenFaults
from slurm_guard.engine.node_state import NodeState
from slurm_guard.engine.sightings import Sightings

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurm_guard.core.plan import Plan
    from slurm_guard.replay.known import Known
    from slurm_guard.store.history import PastRun

_BAD = (FAIL, TIMEOUT)
#: What was last said of a fault is kept for so many faults of a node.
_MOST_WORDS = 64


class Taken:
    """What one run calls for: `decisions`, the one that is acted on (`wanted`), whether it `refuses` the job,
    whether the node is to `returns`, and why it `stays` (empty if it does not, or that was said before).
    """

    __slots__ = ("decisions", "refuses", "returns", "stays", "wanted")

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.wanted: Decision | None = None
        self.refuses = False
        self.returns = False
        self.stays = ""


class Memory:
    """One node: its open faults, this boot's state and its sightings.

    `words` holds what was last decided of a fault, {(fault, device): (ms, why)}; `absent` are the jobs that
    would not have run here.
    """

    def __init__(self, plan: Plan, known: Known) -> None:
        self.plan = plan
        self._known = known
        self.faults = OpenFaults()
        self.state = NodeState("")
        self.sightings = Sightings()
        self.machine = ("", "")
        self.words: dict[tuple[str, str], tuple[int, str]] = {}
        self.absent: set[int] = set()

    @property
    def is_quiet(self) -> bool:
        """True if a run without a finding would change nothing here, so that it need not be read."""
        if self.faults.open or self.faults.claim or self.state.seen or self.state.hung_before or self.absent:
            return False
        return all(entry["since"] is None for entry in self.sightings.faults.values())

    def take(self, run: PastRun, gpus: Callable[[], list[str]]) -> Taken:
        """Take in one run and decide; `gpus` gives the tokens of its job's GPUs, if that is asked for."""
        self._settle_in(run)
        now, taken = run.ended / 1000, Taken()
        enabled = self.plan.checks
        findings = [one for one in run.findings if enabled is None or one.check in enabled]
        bad = [one for one in findings if one.status in _BAD]
        seen, judged = {_name(one.fault, one.device) for one in bad}, self._judged(run, findings)
        swapped = {one.device for one in findings if one.fault == "inventory.gpu" and one.device}
        self.faults.returning.forget_devices(swapped)
        self.sightings.forget(swapped)
        if self.plan.needs_sightings:
            self.sightings.note(bad, judged, run.boot_id, now)
        calling = [*bad, *self._still_open(seen, run.boot_id)]
        if calling:
            given = _given(gpus(), calling) if run.hook == "prolog" else []
            taken.decisions = decide(calling, self.plan, run.hook, given, self._history(run, calling, now))
            self._remember_words(taken.decisions, run.at)
        acting = [one for one in taken.decisions if _acts(one)]
        taken.wanted = acting[0] if acting else None
        taken.refuses = bool(acting and run.hook == "prolog" and taken.decisions[0].action == "refuse")
        self._note_faults(run, bad, judged, taken, now)
        self.state.note_seen(seen, judged, self.plan.longest_of)
        self.state.hung_before = run.hung() if run.coverage else []
        return taken

    def _settle_in(self, run: PastRun) -> None:
        """A boot begins anew, and another machine under the same name knows nothing of the one before."""
        if self.state.boot_id != run.boot_id:
            self.state = NodeState(run.boot_id)
        if self.machine != run.machine:
            before, now = self.machine, run.machine
            self.machine = now
            if before[0] and now[0] and before[0] != now[0]:
                self.faults, self.sightings = OpenFaults(), Sightings()

    def _judged(self, run: PastRun, findings: list[Finding]) -> set[str]:
        """As engine/judge.py has it: the checks that could judge all they look at."""
        enabled = self.plan.checks
        passed = run.passed if enabled is None else run.passed & enabled.keys()
        unsure = {one.check for one in findings if one.status in (UNKNOWN, TIMEOUT)}
        return {*passed, *(one.check for one in findings)} - unsure

    def _still_open(self, seen: set[str], boot_id: str) -> list[Finding]:
        """Events of this boot that the node was never drained for: each run asks again."""
        found, enabled = [], self.plan.checks
        for name, entry in self.faults.waiting_events(boot_id).items():
            if name not in seen and (enabled is None or entry["check"] in enabled):
                code = entry["fault"].partition(".")[2]
                one = Finding(FAIL, code=code, device=entry["device"], event=True)
                one.check, one.tier, one.scope = entry["check"], entry["tier"], entry.get("scope") or "device"
                found.append(one)
        return found

    def _history(self, run: PastRun, findings: list[Finding], now: float) -> History:
        lasting, began = self.sightings.ages(now) if self.plan.needs_sightings else (None, None)
        names = [_name(one.fault, one.device) for one in findings]
        back = self.faults.returning.relapses(names, self.plan.returning["watch_s"], now)
        return History(
            seen=self.state.runs_seen(),
            hung_before=self.state.hung_before,
            sure=self._known.sure,
            refuse=self._known.refuse,
            relapsed=[(fault, device) for fault, _, device in (name.partition(" ") for name in back)],
            lasting=lasting,
            began=began,
            idle=run.hook == "healthcheck" and not run.others,
            minute=_minute_of_day(now),
        )

    def _remember_words(self, decisions: list[Decision], at: int) -> None:
        for one in decisions:
            why = f"the mode is {one.mode}" if one.action != "tell" and one.mode != "enforce" else one.why
            self.words.pop((one.fault, one.device), None)
            self.words[one.fault, one.device] = at, why
        while len(self.words) > _MOST_WORDS:
            del self.words[next(iter(self.words))]

    def _note_faults(
        self, run: PastRun, bad: list[Finding], judged: set[str], taken: Taken, now: float
    ) -> None:
        in_grace = run.uptime_s is not None and run.uptime_s < self.plan.grace_s
        clean_check, faults = run.hook == "healthcheck" and not in_grace, self.faults
        complete = clean_check and (not faults.claim or faults.claim.get("check") in judged)
        tiers = {(one.fault, one.device): one.tier for one in taken.decisions}
        seen_at = iso(run.at / 1000) if bad else ""
        faults.update(bad, judged, tiers, run.boot_id, seen_at, complete)
        self._note_returning(taken, complete, now)
        if taken.wanted is not None and not faults.drained:
            faults.asked = _claim(taken.wanted.fault, taken.wanted.device, run.boot_id)
        if clean_check and faults.claim and not faults.open and self._is_proven(now):
            self._ask_for_return(taken, now)

    def _note_returning(self, taken: Taken, counts: bool, now: float) -> None:
        returning = self.faults.returning
        returning.note_run(not self.faults.open, counts, now)
        if self.faults.claim is None and not self.faults.open:
            returning.stays = ""
        back = returning.relapses(self.faults.open, self.plan.returning["watch_s"], now)
        if back and taken.wanted is not None and not returning.stays:
            returning.stay_after_relapse(back, now)
            taken.stays = returning.stays

    def _is_proven(self, now: float) -> bool:
        rule = self.plan.returning
        enough = self.faults.clean_runs >= rule["clean_runs"]
        return enough and self.faults.returning.is_clean_for(rule["clean_s"], now)

    def _ask_for_return(self, taken: Taken, now: float) -> None:
        claim, returning, rule = self.faults.claim or {}, self.faults.returning, self.plan.returning
        if self.plan.mode(claim.get("check", ""), "resume") != "enforce":
            return
        before = returning.stays
        returning.stay_if_it_flaps(rule["flaps"], rule["flap_window_s"], now)
        taken.returns = not returning.stays
        if returning.stays and not before:
            taken.stays = returning.stays

    def note_drained(self, reason: str, boot_id: str, wanted: Decision | None = None) -> None:
        """Slurm has the node drained with a reason of ours: for `wanted`, or for what the reason says."""
        parsed = reasons.parse(reason)
        fault, device = (parsed.fault, parsed.device) if parsed is not None else ("", "")
        if wanted is not None:
            fault, device = wanted.fault, wanted.device
        claim = _claim(fault, device, boot_id, reason)
        for entry in self.faults.open.values():
            entry["acted"] = True
        self.faults.asked = None
        claim["with"] = sorted(self.faults.open)
        if not self.faults.drained or self.faults.drained.get("reason") != reason:
            self.faults.clean_runs, self.faults.drained = 0, claim

    def note_earlier_drain(self, fault: str, device: str, boot_id: str, at: int) -> None:
        """A real drain from before the time that is replayed: its fault is open, as far as is known."""
        self.note_drained(_reason(fault, device), boot_id)
        name = _name(fault, device)
        if fault and name not in self.faults.open:
            self.faults.open[name] = {
                "first_seen": iso(at / 1000),
                "runs": 1,
                "check": fault.partition(".")[0],
                "fault": fault,
                "device": device,
                "tier": self.plan.tier(fault, "DRAIN"),
                "event": fault in self._known.events,
                "scope": "",
                "boot_id": boot_id,
                "last_seen": iso(at / 1000),
                "acted": True,
            }

    def note_returned(self, now: float, *, by_us: bool) -> None:
        """The node is in service again."""
        claim = self.faults.claim
        if by_us and claim is not None:
            name = _name(claim["fault"], claim["device"])
            self.faults.returning.note_return([name, *(claim.get("with") or [])], now)
        self.faults.end_claim()

    def note_persons_return(self) -> None:
        """A person says that the node is good."""
        self.faults.end_claim()
        self.faults.returning.forget()


def _name(fault: str, device: str | None) -> str:
    return f"{fault} {device or ''}".strip()


def _minute_of_day(now: float) -> int:
    """In this host's time zone: the nodes' own is not on record."""
    local = time.localtime(now)
    return local.tm_hour * 60 + local.tm_min


def _acts(decision: Decision) -> bool:
    return decision.action in ("drain", "refuse") and decision.mode == "enforce"


#: A node that is held asks for the same drain at every run.
_reason = lru_cache(maxsize=1024)(reasons.build)


def _claim(fault: str, device: str, boot_id: str, reason: str = "") -> dict[str, Any]:
    found = {"reason": reason or _reason(fault, device), "fault": fault, "device": device}
    return {**found, "boot_id": boot_id, "check": fault.partition(".")[0]}


def _given(tokens: list[str], findings: list[Finding]) -> list[str]:
    """The names by which findings may call the job's GPUs; without NVML, UUIDs are found in the tokens."""
    found = {f"gpu{token}" for token in tokens if token.isdigit()} | set(tokens)
    for one in findings:
        if one.device_id and any(one.device_id.lower() in token.lower() for token in tokens):
            found |= {one.device_id, one.device or ""}
    return sorted(found - {""})
