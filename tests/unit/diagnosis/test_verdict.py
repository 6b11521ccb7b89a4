# ruff: noqa: E501 - one case a line reads as the table it is
"""Verdicts by table: what the hooks saw and Slurm said, and whose fault that is, how sure, safe or not."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from slurm_guard.diagnosis import Verdict, diagnose, missing_runs, not_on_record, told_by
from slurm_guard.store import jobs, open_store
from slurm_guard.store.fleet import Elsewhere, Peers
from slurm_guard.store.model import ActionRow
from slurm_guard.store.record import parse
from slurm_guard.store.writer import ingest
from tests.unit.store.factory import action, action_record, at, finding, job, ms, run

if TYPE_CHECKING:
    from pathlib import Path

    from slurm_guard.diagnosis import Evidence

LOST = finding("gpu_count.lost", device="gpu3", message="gpu3: the driver answers GpuIsLost", tier="DRAIN_REBOOT", remedy="Reboot the node.")  # fmt: skip
XID13 = finding("gpu_xid.13", device="gpu3", tier="JOB", blame="job", event=True)
XID31 = finding("gpu_xid.31", device="gpu3", tier="JOB", blame="job", event=True)
XID45 = finding("gpu_xid.45", "warn", device="gpu3", tier="WARN", blame="unknown", event=True)
XID79 = finding("gpu_xid.79", device="gpu3", tier="DRAIN_REBOOT", event=True)
OOM = finding(
    "kernel_log.oom", tier="JOB", blame="job", event=True, message="out of memory: killed python (pid 811)"
)
HUNG = finding(
    "fs_mounts.hung", "timeout", "/scratch", blame="storage", scope="shared", message="/scratch hangs"
)
FOREIGN = finding("gpu_processes.foreign", device="gpu3", blame="job", tier="DRAIN")
LEFT = finding("gpu_processes.leftover", device="gpu3", blame="job", tier="DRAIN")
LINK = finding("ib_link.down", device="mlx5_2/1", blame="node")
SLOW = finding("ib_errors.symbol", "warn", "mlx5_0/1", tier="WARN", blame="fabric")


@dataclass
class Fleet:
    """Answers by the test's own word."""

    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    others: dict[int, str] = field(default_factory=dict)
    is_drained: bool = False
    drained: int = ms(60)
    resumed: int = 0

    def peers(self, one: Evidence) -> Peers:
        return Peers(self.passed, self.failed)

    def elsewhere(self, one: Evidence) -> Elsewhere:
        return Elsewhere(set(self.others), set(self.others.values()))

    def last_change(self, node: str) -> ActionRow | None:
        if not self.is_drained and not self.resumed:
            return None
        what = "drain" if self.is_drained else "resume"
        when = self.drained if self.is_drained else self.resumed
        return ActionRow(1, node, when, what, "x", "", "SG:x", "done", "", "", 2, None, "epilog", None, None)


def hooks(*at_end: Any, before: Any = (), between: Any = (), after: Any = (), gpus: str = "01234567", node: str = "gx1",
          nodes: str = "gx1", exit_code: str = "1:0", end: float = 60) -> list[dict[str, Any]]:  # fmt: skip
    """The runs of one node's share: findings of the epilog, of the prolog, and of others as (minute, finding)."""
    given = job(5, nodes, 0, gpus=gpus)
    return [
        run("prolog", node, 0, *before, allocation=given),
        *(run("healthcheck", node, minute) for minute in range(5, int(end), 5)),
        *(run("healthcheck", node, minute, one) for minute, one in (*between, *after)),
        run("epilog", node, end, *at_end, allocation={**given, "exit_code": exit_code}),
    ]


def judged(tmp_path: Path, records: list[dict[str, Any]], accounting: Any = None, fleet: Fleet | None = None,
           expected: tuple[str, ...] = (), later: Any = None) -> Verdict:  # fmt: skip
    with open_store(tmp_path / "store.sqlite") as store:
        ingest(store, [parse(json.dumps(record).encode()) for record in records])
        runs = jobs.job_runs(store, 5)
    told = told_by(accounting, runs)
    now = not_on_record(later, runs)
    return diagnose(runs[-1], told[-1], missing_runs(runs[-1], told[-1], expected), fleet or Fleet(), now)


def beside(*gpus: str, number: int = 6) -> list[dict[str, Any]]:
    """Another job on gx1 at the same time."""
    given = job(number, "gx1", 1, gpus="".join(gpus))
    return [
        run("prolog", "gx1", 1, allocation=given),
        run("epilog", "gx1", 61, allocation={**given, "exit_code": "0:0"}),
    ]


FAILED = {"state": "FAILED", "exit_code": "1:0", "start_time": at(0), "end_time": at(60)}


def state(name: str, code: str = "0:0") -> dict[str, Any]:
    return {**FAILED, "state": name, "exit_code": code}


#: name: (records, accounting, fleet, (blame, confidence, safe), words that must be in what or why)
CASES: dict[str, tuple[list[dict[str, Any]], Any, Fleet, tuple[str, str, str], str]] = {
    "a GPU lost during the job": (hooks(LOST), FAILED, Fleet(), ("node", "high", "exclude"), "was given to this job"),
    "and the node is drained": (hooks(LOST), FAILED, Fleet(is_drained=True), ("node", "high", "yes"), "new since the job began"),
    "and the node is back in service": (hooks(LOST), FAILED, Fleet(resumed=ms(99)), ("node", "high", "yes"), "GpuIsLost"),
    "it was put back before the fault": (hooks(LOST), FAILED, Fleet(resumed=ms(9)), ("node", "high", "exclude"), "GpuIsLost"),
    "without accounting": (hooks(LOST), None, Fleet(), ("node", "high", "exclude"), "gpu3"),
    "the job ended well all the same": (hooks(LOST, exit_code="0:0"), state("COMPLETED"), Fleet(), ("node", "high", "exclude"), "results are whole"),
    "a GPU that was not the job's": (hooks(LOST, gpus="01"), FAILED, Fleet(), ("node", "low", "exclude"), "was not given to this job"),
    "not the job's, and it ended well": (hooks(LOST, gpus="01", exit_code="0:0"), None, Fleet(), ("none", "high", "yes"), "did it no harm: gpu_count.lost gpu3 on gx1"),
    "its own fault, and it ended well": (hooks(XID13, exit_code="0:0"), state("COMPLETED"), Fleet(), ("job", "high", "yes"), "The job ended well, but on gx1 during the job: gpu_xid.13"),
    "its own fault on other jobs' GPU too, and it ended well": (hooks(XID13, exit_code="0:0"), state("COMPLETED"), Fleet(others={1: "noor", 2: "ola"}), ("node", "medium", "exclude"), "The job ended well, but"),
    "out of memory with others there, and it ended well": (hooks(OOM, gpus="01", exit_code="0:0") + beside("2"), None, Fleet(), ("unknown", "low", "yes"), "The job ended well, but"),
    "a warning, and it ended well": (hooks(SLOW, exit_code="0:0"), None, Fleet(), ("none", "high", "yes"), "did it no harm: ib_errors.symbol mlx5_0/1"),
    "an echo and a warning, and it ended well": (hooks(XID45, SLOW, exit_code="0:0"), None, Fleet(), ("none", "high", "yes"), "and 1 more"),
    "already broken at the start": (hooks(LOST, before=(LOST,)), FAILED, Fleet(), ("node", "medium", "exclude"), "before the job began"),
    "an echo after the first cause": (hooks(XID45, XID79), FAILED, Fleet(), ("node", "high", "exclude"), "gpu_xid.79"),
    "an echo alone": (hooks(XID45), FAILED, Fleet(), ("unknown", "low", "unknown"), "exit code 1:0, and what was seen on its nodes only follows from something else: gpu_xid.45"),
    "the job's own kernel": (hooks(XID13), FAILED, Fleet(), ("job", "high", "no"), "gpu_xid.13"),
    "its own fault and a broken GPU": (hooks(XID31, XID79), FAILED, Fleet(), ("node", "high", "exclude"), "gpu_xid.79"),
    "other users' jobs had it too": (hooks(XID31), FAILED, Fleet(others={1: "noor", 2: "ola"}), ("node", "medium", "exclude"), "other users"),
    "another job had it too": (hooks(XID31), FAILED, Fleet(others={1: "noor"}), ("job", "medium", "no"), "may be the node"),
    "out of memory, alone on the node": (hooks(OOM), FAILED, Fleet(), ("job", "high", "no"), "out of memory"),
    "out of memory, with others there": (hooks(OOM, gpus="01") + beside("2"), FAILED, Fleet(), ("unknown", "low", "unknown"), "other jobs ran there too (6)"),
    "a job's fault on its own GPU, with others there": (hooks(XID13, gpus="3") + beside("2"), FAILED, Fleet(), ("job", "high", "no"), "gpu3"),
    "a mount hangs here alone": (hooks(HUNG), FAILED, Fleet(passed=["gx2", "gx3"]), ("node", "high", "exclude"), "passed on 2 other nodes"),
    "a mount hangs everywhere": (hooks(HUNG), FAILED, Fleet(["gx9"], ["gx2", "gx3"]), ("storage", "high", "no"), "2 other nodes saw the same"),
    "a mount hangs on a few": (hooks(HUNG), FAILED, Fleet(["gx9"] * 40, ["gx2", "gx3"]), ("storage", "medium", "no"), "though it passed on 40"),
    "a mount hangs here and on one more": (hooks(HUNG), FAILED, Fleet(["gx8", "gx9"], ["gx2"]), ("node", "high", "exclude"), "it failed on 1"),
    "ports are down on a few": (hooks(LINK), FAILED, Fleet(["gx9"] * 40, ["gx2", "gx3"]), ("node", "high", "exclude"), "it failed on 2"),
    "a mount hangs and nobody can compare": (hooks(HUNG), FAILED, Fleet(), ("storage", "medium", "no"), "no other node's run"),
    "a port is down here alone": (hooks(LINK), FAILED, Fleet(passed=["gx2"]), ("node", "high", "exclude"), "1 other node "),
    "ports are down everywhere": (hooks(LINK), FAILED, Fleet(failed=["gx2"]), ("fabric", "high", "unknown"), "saw the same"),
    "a warning is not enough": (hooks(SLOW), FAILED, Fleet(passed=["gx2"]), ("node", "low", "exclude"), "ib_errors.symbol"),
    "seen in the last ten minutes": (hooks(between=((55, LINK),)), FAILED, Fleet(passed=["gx2"]), ("node", "high", "exclude"), "last 10 minutes"),
    "seen long before the end": (hooks(between=((20, LINK),)), FAILED, Fleet(passed=["gx2"]), ("node", "low", "exclude"), "earlier than"),
    "an event long before the end": (hooks(between=((20, XID79),)), FAILED, Fleet(), ("node", "medium", "exclude"), "earlier than"),
    "seen right after the end": (hooks(after=((63, LINK),)), FAILED, Fleet(passed=["gx2"]), ("node", "medium", "exclude"), "after the job's end"),
    "seen long after the end": (hooks(after=((70, LINK),)), FAILED, Fleet(), ("unknown", "low", "unknown"), "no hook saw a fault"),
    "an application's event before the job began": (hooks(between=((2, {**XID31, "since": at(-3)}),), end=9), FAILED, Fleet(), ("unknown", "low", "unknown"), "no hook saw a fault"),
    "an application's event that the prolog saw": (hooks(before=(XID31,)), FAILED, Fleet(), ("unknown", "low", "unknown"), "no hook saw a fault"),
    "an application's event in the next job": (hooks(after=((63, {**XID31, "since": at(62)}),)), FAILED, Fleet(), ("unknown", "low", "unknown"), "no hook saw a fault"),
    "an application's event told after the end": (hooks(after=((63, {**XID31, "since": at(59)}),)), FAILED, Fleet(), ("job", "medium", "no"), "gpu_xid.31"),
    "a node's event before the job began": (hooks(between=((2, {**XID79, "since": at(-3)}),), end=9), FAILED, Fleet(), ("node", "medium", "exclude"), "before the job began"),
    "another job's process, seen by the prolog": (hooks(before=(FOREIGN,)), FAILED, Fleet(), ("node", "medium", "exclude"), "gpu_processes.foreign"),
    "what a crash left behind": (hooks(LEFT, XID31), FAILED, Fleet(), ("job", "high", "no"), "gpu_xid.31"),
    "a process left behind, and nothing else": (hooks(LEFT), FAILED, Fleet(), ("job", "high", "no"), "gpu_processes.leftover"),
    "a job's fault on another job's GPU": (hooks(XID31, gpus="01"), FAILED, Fleet(), ("unknown", "low", "unknown"), "another job's device"),
    "a drain from before the job": (hooks(LOST), FAILED, Fleet(is_drained=True, drained=ms(-90)), ("node", "high", "exclude"), "gpu3"),
    "Slurm: a deadline, and a warning": (hooks(SLOW), state("DEADLINE", "0:15"), Fleet(), ("job", "medium", "no"), "deadline"),
    "accounting lags behind the epilog": (hooks(exit_code="0:0"), state("RUNNING"), Fleet(), ("none", "high", "yes"), "ended well"),
    "nothing seen": (hooks(), FAILED, Fleet(), ("unknown", "low", "unknown"), "no hook saw a fault"),
    "nothing seen and nothing told": (hooks(exit_code="137:0"), None, Fleet(), ("unknown", "low", "unknown"), "137:0"),
    "ended well": (hooks(exit_code="0:0"), state("COMPLETED"), Fleet(), ("none", "high", "yes"), "no fault is on record"),
    "Slurm: out of memory": (hooks(), state("OUT_OF_MEMORY", "0:125"), Fleet(), ("job", "high", "no"), "more memory"),
    "Slurm: time limit": (hooks(), state("TIMEOUT", "0:15"), Fleet(), ("job", "medium", "no"), "time limit"),
    "Slurm: time limit on a broken node": (hooks(LOST), state("TIMEOUT", "0:15"), Fleet(), ("node", "high", "exclude"), "GpuIsLost"),
    "Slurm: cancelled, and a warning": (hooks(SLOW), state("CANCELLED", "0:15"), Fleet(), ("job", "medium", "yes"), "cancelled"),
    "Slurm: preempted": (hooks(), state("PREEMPTED", "0:15"), Fleet(), ("none", "high", "yes"), "priority"),
    "Slurm: a node failed": (hooks(), state("NODE_FAIL"), Fleet(), ("node", "medium", "unknown"), "lost a node"),
    "a word that nobody knows": (hooks(), state("EVAPORATED", "1:0"), Fleet(), ("unknown", "low", "unknown"), "1:0"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("records", "accounting", "fleet", "expected", "said"), CASES.values(), ids=CASES.keys()
)
def test_verdicts(
    tmp_path: Path, records: Any, accounting: Any, fleet: Fleet, expected: Any, said: str
) -> None:
    verdict = judged(tmp_path, records, accounting, fleet, ("gx1",))
    text = " ".join((verdict.what, *verdict.why, verdict.fault))
    assert ((verdict.blame, verdict.confidence, verdict.safe), said in text) == (expected, True), text
    assert verdict.next_step
    assert verdict.safe_why


def refused(*findings: dict[str, Any]) -> list[dict[str, Any]]:
    given = job(5, "gx1", 0)
    decisions = [{"action": "refuse", "fault": findings[0]["fault"], "device": findings[0].get("device", "")}]
    return [
        run("prolog", "gx1", 0, *findings, allocation=given, exit=75, decisions=decisions),
        run("epilog", "gx1", 0.05, allocation={**given, "exit_code": "0:0"}),
    ]


@pytest.mark.parametrize(
    ("one", "fleet", "blame"),
    [
        (LOST, Fleet(is_drained=True), "node"),
        (HUNG, Fleet(passed=["gx2"]), "node"),
        (HUNG, Fleet(failed=["gx2", "gx3"]), "storage"),
        ({**LOST, "blame": "unknown"}, Fleet(), "node"),
        (FOREIGN, Fleet(), "node"),
    ],
)
def test_a_refusal_is_the_nodes_unless_many_share_the_cause(
    tmp_path: Path, one: Any, fleet: Fleet, blame: str
) -> None:
    verdict = judged(tmp_path, refused(one, SLOW), None, fleet, ("gx1",))
    assert (verdict.blame, verdict.confidence, verdict.fault) == (blame, "high", one["fault"])
    assert verdict.what.startswith("gx1 refused the job before it began")
    assert verdict.safe == ("no" if blame == "storage" else "requeued")


@pytest.mark.parametrize(
    ("later", "safe", "said"),
    [
        ({"state": "PENDING", "reason": "launch failed requeued held"}, "held", "`scontrol release 5`"),
        ({"state": "PENDING", "reason": "launch_failed_requeued_held"}, "held", "`scontrol release 5`"),
        ({"state": "PENDING", "reason": "JobHeldUser"}, "held", "`scontrol release 5`"),
        ({"state": "REQUEUE_HOLD"}, "held", "`scontrol release 5`"),
        ({"state": "SPECIAL_EXIT"}, "held", "`scontrol release 5`"),
        ({"state": "PENDING", "reason": "BeginTime"}, "requeued", "by itself"),
        ({"state": "RUNNING", "start_time": at(9), "reason": "None"}, "requeued", "by itself"),
        ({"state": "CANCELLED", "start_time": at(9)}, "unknown", "its last run is CANCELLED"),
    ],
)
@pytest.mark.parametrize("records", ["refused", "requeued by hand"])
def test_a_requeued_job_that_is_held_needs_a_release(
    tmp_path: Path, records: str, later: Any, safe: str, said: str
) -> None:
    was = {**FAILED, "state": "REQUEUED", "exit_code": "0:0"}
    told = [{**was, "restarts": 0}, {**later, "restarts": 1}]
    if records == "refused":
        verdict = judged(tmp_path, refused(LOST), told, Fleet(), ("gx1",), told)
        assert (verdict.safe, said in verdict.safe_why) == (safe, True), verdict.safe_why
    else:
        verdict = judged(tmp_path, hooks(), told, Fleet(), ("gx1",), told)
        assert (verdict.safe == "held") == (safe == "held")


def test_one_job_of_slurm_s_that_is_held_and_one_run_on_record(tmp_path: Path) -> None:
    held = {"state": "PENDING", "reason": "job_requeued_in_held_state"}
    assert judged(tmp_path, refused(LOST), held, Fleet(), ("gx1",), held).safe == "held"


def answered(one: dict[str, Any], planned: str, *ends: tuple[str, str, str]) -> list[dict[str, Any]]:
    """A prolog that saw a fault, as the engine leaves it: its plan, and a record of what became of it."""
    what = (one["fault"], one.get("device", ""))
    why = "tier DRAIN; a first hang of this boot never refuses"
    decision = {"action": planned, "fault": what[0], "device": what[1], "why": why}
    given = job(5, "gx1", 0)
    prolog = run(
        "prolog", "gx1", 0, one, allocation=given, exit=None, decisions=[decision],
        actions=[action(planned, 0, *what, "queued" if ends else "observed", why="tier DRAIN")],
    )  # fmt: skip
    done = [action(kind, 0.01, *what, outcome, why=why) for kind, outcome, why in ends]
    followed = [action_record("gx1", 0.01, *done, by="prolog", parent=prolog["run_id"])] if ends else []
    return [prolog, *followed, run("epilog", "gx1", 0.05, one, allocation={**given, "exit_code": "0:0"})]


FULL = "no room in the budget of the cluster: 2 of at most 2 are drained (gx7, gx8)"


@pytest.mark.parametrize(
    ("planned", "ends", "confidence", "said"),
    [
        ("refuse", [("drain", "done", "drained: x"), ("refuse", "done", "drained: x")], "high", "refused the job for it"),
        ("refuse", [("drain", "held", FULL), ("refuse", "held", FULL)], "medium", f"but let it in: {FULL}"),
        ("refuse", [], "medium", "would have refused the job, but its mode is observe"),
        ("drain", [("drain", "done", "drained: x")], "medium", "drained the node and let the job run (a first hang"),
    ],
)  # fmt: skip
def test_what_the_prolog_did_about_a_fault_that_it_saw(
    tmp_path: Path, planned: str, ends: Any, confidence: str, said: str
) -> None:
    verdict = judged(tmp_path, answered(HUNG, planned, *ends), None, Fleet(passed=["gx2"]), ("gx1",))
    assert (verdict.blame, verdict.confidence, verdict.fault) == ("node", confidence, HUNG["fault"])
    assert any(said in reason for reason in verdict.why), verdict.why
    assert (verdict.safe == "requeued") == (confidence == "high")


@pytest.mark.parametrize(
    ("decisions", "actions", "said"),
    [
        ([("tell", HUNG, "seen in 1 run, 2 of 3 are needed")], [], "and let it run: seen in 1 run, 2 of 3 are needed"),
        ([("tell", HUNG, "tier DRAIN; the mode of drain is off")], [], "the mode of drain is off"),
        ([("drain", LOST, "tier DRAIN"), ("drain", HUNG, "tier DRAIN; a first hang of this boot never refuses")],
         [action("drain", 0, "gpu_count.lost", "gpu3", "queued")],
         "it called for a drain, and another fault came first (a first hang of this boot never refuses)"),
        ([], [], "and let it run: no decision about it is on record"),
    ],
)  # fmt: skip
def test_why_the_prolog_let_the_job_run_is_always_told(
    tmp_path: Path, decisions: Any, actions: Any, said: str
) -> None:
    named = [
        {"action": what, "fault": one["fault"], "device": one["device"], "why": why}
        for what, one, why in decisions
    ]
    given = job(5, "gx1", 0)
    prolog = run("prolog", "gx1", 0, HUNG, allocation=given, decisions=named, actions=actions)
    epilog = run("epilog", "gx1", 30, HUNG, allocation={**given, "exit_code": "1:0"})
    verdict = judged(tmp_path, [prolog, epilog], FAILED, Fleet(passed=["gx2"]), ("gx1",))
    assert any(said in reason for one in verdict.causes for reason in one.reasons), verdict.why


MISSING: dict[str, tuple[list[dict[str, Any]], tuple[str, ...], str, str]] = {
    "the suspect's prolog": (hooks(LOST)[1:], ("gx1",), "low", "prolog of gx1"),
    "another node's runs": (hooks(LOST, nodes="gx[1-2]"), ("gx1", "gx2"), "medium", "runs of gx2"),
    "none": (hooks(LOST), ("gx1",), "high", ""),
}


@pytest.mark.parametrize(("records", "nodes", "confidence", "said"), MISSING.values(), ids=MISSING.keys())
def test_missing_runs_lower_the_confidence(
    tmp_path: Path, records: Any, nodes: tuple[str, ...], confidence: str, said: str
) -> None:
    for record in records:
        if record["hook"] == "epilog" and "prolog" in said:
            del record["allocation"]["opened_at"]
    verdict = judged(tmp_path, records, FAILED, None, nodes)
    assert (verdict.blame, verdict.confidence) == ("node", confidence)
    assert said in " ".join(verdict.why)


def test_a_job_that_ended_well_is_not_healthy_where_runs_are_missing(tmp_path: Path) -> None:
    verdict = judged(
        tmp_path, hooks(exit_code="0:0", nodes="gx[1-2]"), state("COMPLETED"), None, ("gx1", "gx2")
    )
    assert (verdict.blame, verdict.confidence) == ("none", "low")
    assert "cannot be called healthy" in verdict.what


def test_a_job_without_an_end_is_not_judged(tmp_path: Path) -> None:
    verdict = judged(tmp_path, hooks()[:-1], None, None, ("gx1",))
    assert (verdict.blame, verdict.confidence) == ("unknown", "low")
    assert "still runs" in verdict.what


def test_the_first_cause_is_the_earliest_of_equals(tmp_path: Path) -> None:
    early, late = {**XID79, "since": at(50)}, {**LOST, "since": at(52)}
    verdict = judged(tmp_path, hooks(late, early), FAILED, None, ("gx1",))
    assert [one.finding.fault for one in verdict.causes] == ["gpu_xid.79", "gpu_count.lost"]
    assert verdict.causes[0].at == ms(50)
