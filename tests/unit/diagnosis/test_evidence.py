"""Which devices were a job's own, and what accounting and coverage make of odd input."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.diagnosis import Told, missing_runs, not_on_record, told_by
from slurm_guard.diagnosis.evidence import is_given
from slurm_guard.store.model import Allocation, FindingRow, JobRun, NodeShare, RunRow
from tests.unit.store.factory import at, ms, uuid


def seen(device: str, device_id: str | None = None) -> FindingRow:
    return FindingRow(1, "gx1", 0, "gpu_xid", "gpu_xid.79", "fail", device, device_id)


@pytest.mark.parametrize(
    ("device", "device_id", "gpus", "expected"),
    [
        ("gpu3", None, ["3"], True),
        ("gpu3", uuid(3), ["0", "3"], True),
        ("gpu3", None, ["0", "13"], False),
        ("gpu3", uuid(3), [uuid(3)], True),
        ("gpu3", uuid(3), [uuid(4)], False),
        ("gpu3", None, [uuid(3)], None),
        ("gpu3", "0000:5d:00.0", [uuid(3)], None),
        ("gpu3", uuid(3), ["MIG-4e1c0000-0000-4000-8000-000000000001"], None),
        ("gpu3/mig1", None, ["3"], True),
        ("gpu3", None, [], False),
        ("gpu", None, ["3"], None),
        ("mlx5_0/1", None, ["3"], None),
        ("/scratch", None, [], None),
        ("", None, ["3"], None),
    ],
)
def test_whose_device_it_was(
    device: str, device_id: str | None, gpus: list[str], expected: bool | None
) -> None:
    assert is_given(seen(device, device_id), gpus) is expected


def job_run(opened: float = 0, closed: float | None = 60, **more: Any) -> JobRun:
    end = None if closed is None else ms(closed)
    own = Allocation(1, "aurora", "gx1", 5, ms(opened), closed=end)
    hook = RunRow(1, "00", "aurora", "gx1", "prolog", ms(opened), "pass", plan_state="ok")
    share = NodeShare(own, prolog=hook, epilog=None if end is None else hook, between={"pass": 3})
    for name, value in more.items():
        setattr(share, name, value)
    return JobRun("aurora", 5, 0, [share])


@pytest.mark.parametrize(
    ("accounting", "state", "code", "problem"),
    [
        (None, "", "", "was not asked"),
        ({"problem": "slurmdbd does not answer"}, "", "", "slurmdbd does not answer"),
        ([], "", "", "no such job"),
        (
            {"state": "FAILED", "exit_code": 9, "exit_signal": 0, "start_time": ms(0) / 1000},
            "FAILED",
            "9:0",
            "",
        ),
        ({"state": "CANCELLED by 1000", "exit_code": "0:15", "start_time": at(0)}, "CANCELLED", "0:15", ""),
        ({"state": "COMPLETED", "start_time": "Unknown"}, "COMPLETED", "", ""),
        ([{"state": "FAILED", "start_time": at(0), "step": "batch"}], "", "", "no such job"),
        (
            [{"state": "NODE_FAIL", "start_time": at(-900)}, {"state": "FAILED", "start_time": at(1)}],
            "FAILED",
            "",
            "",
        ),
    ],
)
def test_what_accounting_told(accounting: Any, state: str, code: str, problem: str) -> None:
    (told,) = told_by(accounting, [job_run()])
    assert (told.state, told.exit) == (state, code)
    assert problem in told.problem
    assert bool(told.problem) == bool(problem)


@pytest.mark.parametrize("minutes", [-90 * 1440, 90 * 1440])
def test_a_recycled_id_in_accounting_is_another_job(minutes: float) -> None:
    (told,) = told_by({"state": "FAILED", "exit_code": "1:0", "start_time": at(minutes)}, [job_run()])
    assert (told.state, told.exit) == ("", "")


@pytest.mark.parametrize(
    ("state", "start", "end", "code"),
    [("RUNNING", True, False, ""), ("PENDING", False, False, ""), ("COMPLETING", True, True, "0:0")],
)
def test_what_is_only_expected_of_a_run_is_not_told(state: str, start: bool, end: bool, code: str) -> None:
    """slurmctld tells when a run will begin or end at the latest, and an exit code of 0:0."""
    said = {"state": state, "exit_code": "0:0", "start_time": at(0), "end_time": at(600)}
    (told,) = told_by(said, [job_run()])
    assert (told.start is not None, told.end is not None, told.exit) == (start, end, code)


def test_runs_of_accounting_meet_those_on_record_by_time() -> None:
    said = [
        {"state": name, "start_time": at(minute)} for name, minute in (("COMPLETED", 100), ("NODE_FAIL", 0))
    ]
    told = told_by(said, [job_run(0, 9), job_run(50, 60), job_run(101, None)])
    assert [one.state for one in told] == ["NODE_FAIL", "", "COMPLETED"]


def restarted(restart: int, opened: float, closed: float | None) -> JobRun:
    found = job_run(opened, closed)
    found.restart = found.first.restart = restart
    return found


def test_slurmctld_tells_of_the_last_run_only() -> None:
    now = {"state": "COMPLETED", "exit_code": "0:0", "restarts": 1, "start_time": at(0.1), "user": "mira"}
    said = [now, {"problem": "accounting storage is disabled"}]
    runs = [restarted(0, 0, 0.05), restarted(1, 0.3, 9)]
    refused, last = told_by(said, runs)
    assert (refused.state, refused.user, refused.followed) == ("", "mira", True)
    assert refused.problem.endswith("the job's last run, restart 1; accounting storage is disabled")
    assert (last.state, last.followed) == ("COMPLETED", False)
    assert not_on_record(said, runs) is None
    (alone,) = told_by(said, runs[:1])
    assert (alone.state, alone.followed) == ("", True)
    waits = not_on_record(said, runs[:1])
    assert waits is not None
    assert (waits.state, waits.restarts) == ("COMPLETED", 1)


SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
KEYS = (
    "state",
    "exit_code",
    "exit_signal",
    "start_time",
    "end_time",
    "submit_time",
    "nodes",
    "user",
    "restarts",
    "step",
)


@given(st.lists(st.dictionaries(st.sampled_from(KEYS), SCALAR), max_size=3))
def test_odd_accounting_never_breaks_a_report(accounting: list[dict[str, Any]]) -> None:
    (told,) = told_by(accounting, [job_run()])
    assert isinstance(told, Told)


def finding(status: str, message: str) -> FindingRow:
    return FindingRow(1, "gx1", 0, "gpu_ecc", "gpu_ecc", status, message=message)


@pytest.mark.parametrize(
    ("run", "told", "expected", "found"),
    [
        (job_run(), Told(), ["gx1"], []),
        (job_run(), Told(), ["gx1", "gx2"], [("gx2", "all")]),
        (job_run(prolog=None), Told(), [], [("gx1", "prolog")]),
        (job_run(closed=None), Told(), ["gx1"], [("gx1", "epilog")]),
        (job_run(closed=None), Told(state="NODE_FAIL"), ["gx1"], [("gx1", "epilog")]),
        (job_run(silence=(ms(0), ms(60)), between={}), Told(), [], [("gx1", "between")]),
        (job_run(closed=10, between={}), Told(), [], []),
        (job_run(silence=(ms(5), ms(60))), Told(), [], [("gx1", "between")]),
        (job_run(silence=(ms(5), ms(15))), Told(), [], []),
    ],
)
def test_what_is_missing(run: JobRun, told: Told, expected: list[str], found: list[tuple[str, str]]) -> None:
    assert [(one.node, one.what) for one in missing_runs(run, told, expected)] == found


def test_what_a_run_could_not_see_is_no_missing_run() -> None:
    hook = RunRow(
        1,
        "00",
        "aurora",
        "gx1",
        "epilog",
        0,
        "unknown",
        plan_state="stale",
        plan_problem="31 days old",
        dropped=4,
    )
    hook.coverage = {"nvml": "hung", "prolog": "no prolog of this job on record here"}
    hook.findings = [
        finding("unknown", "no answer"),
        finding("unknown", "again"),
        finding("fail", "3 errors"),
    ]
    found = missing_runs(job_run(epilog=hook), Told(), [])
    assert [(one.what, one.gap) for one in found] == [
        ("nvml", False),
        ("", False),
        ("", False),
        ("spool", False),
        ("plan", False),
    ]
    assert [one.why for one in found if one.checks] == ["no answer", "again"]


def unjudged(check: str, device: str, message: str) -> FindingRow:
    return FindingRow(1, "gx1", 0, check, check, "unknown", device, message=message)


def test_one_cause_is_one_gap_however_many_checks_and_runs_it_blinds() -> None:
    lost = [
        unjudged(check, gpu, f"{gpu} cannot be read (GpuIsLost); see gpu_count")
        for gpu in ("gpu5", "gpu1")
        for check in ("gpu_remap", "gpu_ecc")
    ]
    runs = [
        RunRow(1, "00", "aurora", "gx1", hook, 0, "fail", plan_state="ok", findings=lost)
        for hook in ("epilog", "healthcheck")
    ]
    (one,) = missing_runs(job_run(epilog=runs[0], after=[runs[1]]), Told(), [])
    assert (one.hooks, one.checks) == (["epilog", "healthcheck"], ["gpu_ecc", "gpu_remap"])
    assert (one.devices, one.why) == (["gpu1", "gpu5"], "cannot be read (GpuIsLost)")


def test_a_hang_that_is_a_finding_is_no_gap_of_its_own() -> None:
    hang = FindingRow(1, "gx1", 0, "fs_mounts", "fs_mounts.hung", "timeout", "/local")
    hook = RunRow(1, "00", "aurora", "gx1", "epilog", 0, "timeout", plan_state="ok", findings=[hang])
    hook.coverage = {"/local": "hung", "/scratch": "hung"}
    assert [one.what for one in missing_runs(job_run(epilog=hook), Told(), [])] == ["/scratch"]
