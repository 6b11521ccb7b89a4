"""The replay's memory of a node against the engine's own code and files, over any sequence of runs."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_guard.core import check as registry
from slurm_guard.core.context import Context
from slurm_guard.core.expectation import Expectation
from slurm_guard.core.outcome import FAIL, PASS, TIMEOUT, UNKNOWN, WARN, CheckResult, Facts, Finding
from slurm_guard.core.paths import Places
from slurm_guard.core.plan import Plan
from slurm_guard.engine import act, faults, keep, node_state, requests, settle, weigh
from slurm_guard.engine.run import Run
from slurm_guard.engine.run_once import RunOutcome
from slurm_guard.replay.known import Known
from slurm_guard.replay.memory import Memory, Taken
from slurm_guard.store.history import PastRun

RULES = [
    {"fault": "ib_link", "hooks": ["healthcheck"], "node": "idle", "runs": 2, "of": 4, "minimum_s": 1200.0},
    {"fault": "gpu_xid.31", "escalate": {"after": 2, "within_s": 86400.0, "tier": "DRAIN_RESET"}},
    {"fault": "ib_errors", "quiet": ["20:00-04:00"]},
]
MODES = [["*", "*", "enforce"], ["fs_space", "*", "observe"], ["gpu_pcie", "drain", "off"]]
PROFILE = {"rules": RULES, "modes": MODES}
BUNDLE = {
    "profiles": [PROFILE],
    "nodes": {"n1": 0},
    "return": {"clean_runs": 2, "clean_s": 600.0, "watch_s": 7200.0, "flaps": 2, "flap_window_s": 86400.0},
}
#: status, check, code, device, tier, scope
SEEN = [
    (FAIL, "gpu_count", "lost", "gpu0", "DRAIN_REBOOT", "device"),
    (FAIL, "gpu_count", "lost", "gpu1", "DRAIN_REBOOT", "device"),
    (FAIL, "ib_link", "down", "mlx5_0/1", "DRAIN", "device"),
    (FAIL, "ib_errors", "symbol", "mlx5_0/1", "DRAIN", "device"),
    (FAIL, "gpu_xid", "79", "gpu0", "DRAIN_REBOOT", "device"),
    (FAIL, "gpu_xid", "31", "gpu1", "JOB", "device"),
    (TIMEOUT, "fs_mounts", "hung", "/data", "DRAIN", "node"),
    (FAIL, "fs_space", "full", "/data", "DRAIN", "node"),
    (FAIL, "gpu_pcie", "width", "gpu1", "DRAIN", "device"),
    (UNKNOWN, "ib_link", "", "", "NOTE", "node"),
    (WARN, "gpu_count", "extra", "", "WARN", "node"),
]
CHECKS = sorted({one[1] for one in SEEN})
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["healthcheck", "healthcheck", "healthcheck", "epilog", "prolog"]),
        st.sampled_from([60, 400, 3600, 40_000]),
        st.sets(st.sampled_from(range(len(SEEN))), max_size=3),
        st.sampled_from([False] * 7 + [True]),
    ),
    max_size=25,
)
BEGIN = 1_806_000_000


def findings(numbers: set[int], at: int) -> list[Finding]:
    found = []
    for number in sorted(numbers, key=lambda one: (SEEN[one][1], one)):
        status, check, code, device, tier, scope = SEEN[number]
        one = Finding(status, "seen", code=code, device=device, tier=tier, scope=scope)
        one.check, one.event = check, check == "gpu_xid"
        one.since = f"at {at}" if one.event else None
        found.append(one)
    return found


class EngineNode:
    """A node whose files the engine keeps, and for whom Slurm does whatever is asked."""

    def __init__(self, folder: str, plan: Plan) -> None:
        self.places = Places(folder)
        self.plan = plan

    def run(self, hook: str, at: int, seen: list[Finding], boot: str) -> tuple[Run, bool]:
        """One run, and whether the node returned."""
        this = Run(self.places, self.plan, _context(hook), self._outcome(hook, at, seen, boot))
        weigh.weigh(this)
        for what, step in keep._STEPS:
            if what in ("request", "faults", "sightings", "state"):
                step(this)
        if this.requests:
            standing, done = faults.load(self.places).drained, act.Outcome("done", "drained", 2)
            done.written, done.reason = standing is None, standing["reason"] if standing else None
            settle._settle_request(this, this.requests[0], done)
        return this, self._return(boot)

    def _outcome(self, hook: str, at: int, seen: list[Finding], boot: str) -> RunOutcome:
        outcome = RunOutcome()
        outcome.started, outcome.boot_id, outcome.uptime_s, outcome.others = at, boot, 1e6, []
        outcome.state = node_state.load(self.places, boot)
        outcome.checks, outcome.kmsg_last, outcome.allocation = CHECKS, None, None
        outcome.expect = Expectation(run=Facts(hook=hook, in_grace=False, uptime_s=1e6))
        outcome.results = _results(seen)
        outcome.given = ["0", "gpu0"] if hook == "prolog" else []
        hangs = [Facts(key="/data", probe="mounts", confirmed=False, start_time=None, pid=1)]
        outcome.reading = Facts(hangs=hangs if any(one.status == TIMEOUT for one in seen) else [])  # type: ignore[assignment]
        return outcome

    def _return(self, boot: str) -> bool:
        returned = False
        for request in requests.waiting(self.places, boot):
            assert request["kind"] == "resume"
            if not request["stays"]:
                returned = True
                faults.change(self.places, lambda found, one=request: settle._note_returned(found, one, True))
            requests.drop(self.places, request)
        return returned


def _context(hook: str) -> Context:
    job = {} if hook == "healthcheck" else {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": "900"}
    return Context(hook, {"SLURMD_NODENAME": "n1", **job})


def _results(seen: list[Finding]) -> list[CheckResult]:
    by_check: dict[str, list[Finding]] = {name: [] for name in CHECKS}
    for one in seen:
        by_check[one.check].append(one)
    return [CheckResult(name, found or [Finding(PASS)]) for name, found in by_check.items()]


def past(number: int, hook: str, at: int, seen: list[Finding], boot: str) -> PastRun:
    passed = frozenset(CHECKS) - {one.check for one in seen}
    hung = '{"/data":"hung"}' if any(one.status == TIMEOUT for one in seen) else None
    job = None if hook == "healthcheck" else 7
    ms = at * 1000
    return PastRun(number, 1, ms, ms, hook, 1e6, job, boot, ("", ""), passed, None, hung, None, seen)


def follow(memory: Memory, run: PastRun) -> Taken:
    """One run of the replay on a node for whom Slurm does whatever is asked."""
    taken = memory.take(run, lambda: ["0"])
    memory.faults.note_whose(*(([], []) if run.hook == "healthcheck" else ([7], [900])))
    if taken.wanted is not None:
        reason = f"SG:{taken.wanted.fault} {taken.wanted.device}"
        if memory.faults.drained:
            reason = memory.faults.drained["reason"]
        memory.note_drained(reason, run.boot_id, None if memory.faults.drained else taken.wanted)
    if taken.returns:
        memory.note_returned(run.ended / 1000, by_us=True)
    return taken


def told(decisions: list[Any]) -> list[tuple[str, ...]]:
    return [(one.action, one.fault, one.device, one.tier, one.mode) for one in decisions]


def kept(found: faults.OpenFaults) -> dict[str, Any]:
    drained = found.drained and {name: found.drained[name] for name in ("reason", "fault", "device", "with")}
    whole = found.as_dict()
    return {"drained": drained, **{name: whole[name] for name in ("open", "clean_runs", "returning")}}


@contextmanager
def clock(now: int) -> Iterator[None]:
    local = time.localtime

    def at(seconds: float | None = None) -> time.struct_time:
        return local(now if seconds is None else seconds)

    with mock.patch.object(time, "time", return_value=float(now)), mock.patch.object(time, "localtime", at):
        yield


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_both_decide_and_remember_the_same(steps: list[tuple[str, int, set[int], bool]]) -> None:
    for name in CHECKS:
        registry.load(name)
    plan = Plan(BUNDLE, "n1")
    memory, at, boot = Memory(plan, Known()), BEGIN, 0
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(os, "fsync"):
        node = EngineNode(folder, plan)
        for number, (hook, pause, numbers, reboots) in enumerate(steps):
            at, boot = at + pause, boot + reboots
            with clock(at):
                this, returned = node.run(hook, at, findings(numbers, at), f"boot-{boot}")
                taken = follow(memory, past(number, hook, at, findings(numbers, at), f"boot-{boot}"))
            assert told(taken.decisions) == told(this.decisions)
            assert (taken.returns, taken.refuses) == (returned, this.refusing is not None)
            assert bool(taken.stays) == (this.stays is not None)
            assert kept(memory.faults) == kept(faults.load(node.places))
            assert memory.state.seen == node_state.load(node.places, f"boot-{boot}").seen
