"""Job ids, node names and empty answers as the field has reported them: no job 0, no state of nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slurm_guard.core import reason as reasons
from slurm_guard.core.errors import SlurmError, SlurmRefusedError
from slurm_guard.slurm import parse_json, parse_text, states
from slurm_guard.slurm.gateway import JobRun, plain_job_id, plain_node_name
from tests.unit.slurm.nodes import OWNERS, SlurmDouble, node

TOKEN = "~0123456789abcdef~"


def accounted(job_id: str, raw: str, state: str) -> JobRun:
    """One run of sacct's answer."""
    told = dict.fromkeys(parse_text.RUN_FIELDS, "")
    told.update(
        JobID=job_id, JobIDRaw=raw, State=state, ExitCode="0:0", DerivedExitCode="0:0", NodeList="gx7"
    )
    (run,) = parse_text.runs("".join(f"{text}{TOKEN}" for text in told.values()) + "\n", TOKEN)
    return run


@pytest.mark.parametrize(
    ("job_id", "raw", "job", "array", "task", "het", "step"),
    [
        ("61007", "61007", 61007, None, None, None, ""),
        ("61007.batch", "61007.batch", 61007, None, None, None, "batch"),
        ("61007.extern", "61007.extern", 61007, None, None, None, "extern"),
        ("61007.3", "61007.3", 61007, None, None, None, "3"),
        ("61007_[18-400%64]", "61007", 61007, None, None, None, ""),
        ("61007_[2,5,8-11%4]", "61007", 61007, None, None, None, ""),
        ("61007_17", "61025", 61025, 61007, 17, None, ""),
        ("61007_17.batch", "61025.batch", 61025, 61007, 17, None, "batch"),
        ("61007_17.b+", "61025.b+", 61025, 61007, 17, None, "b+"),
        ("61300+0", "61300", 61300, None, None, 61300, ""),
        ("61300+2.0", "61302.0", 61302, None, None, 61300, "0"),
        ("61300+1.extern", "61301.extern", 61301, None, None, 61300, "extern"),
    ],
)
def test_ids_of_arrays_steps_and_components(
    job_id: str, raw: str, job: int, array: int | None, task: int | None, het: int | None, step: str
) -> None:
    run = accounted(job_id, raw, "COMPLETED")
    assert (run.accounted_id, run.job_id, run.step) == (job_id, job, step)
    assert (run.array_job_id, run.array_task_id, run.het_job_id) == (array, task, het)


@pytest.mark.parametrize("raw", ["", "x", "0", "0.batch", "[1-3]", "4294967294", "N/A", "-4"])
def test_an_id_that_cannot_be_read_is_an_error_and_never_job_0(raw: str) -> None:
    with pytest.raises(SlurmError, match="job id"):
        accounted("61007", raw, "COMPLETED")


@pytest.mark.parametrize("told", [0, -4, "x", None, 4294967294, {"set": False, "number": 7}, {"number": 0}])
def test_nor_is_it_in_json(told: object) -> None:
    with pytest.raises(SlurmError, match="job without an id"):
        parse_json.jobs({"jobs": [{"job_id": told, "job_state": ["RUNNING"]}]})


@pytest.mark.parametrize(
    "nodes",
    ["gx[1-2]", {"count": 2, "list": "gx[1-2]"}, ["gx[1-2]"], {"list": ["gx[1-2]"], "allocation": "?"}],
)
def test_a_jobs_nodes_are_read_in_whichever_shape_they_come(nodes: object) -> None:
    (job,) = parse_json.jobs({"jobs": [{"job_id": 7, "job_state": ["RUNNING"], "nodes": nodes, "name": 5}]})
    assert (job.nodes, job.name) == ("gx[1-2]", "")


@pytest.mark.parametrize("text", ["770001_[1-3]", "770001_", "+1", "7.batch", "job7", "1,2", "7 8"])
def test_what_names_no_single_job_is_refused_before_slurm_is_asked(text: str) -> None:
    with pytest.raises(SlurmError):
        plain_job_id(text)


@pytest.mark.parametrize(
    "told",
    [
        {"jobs": None},
        {"jobs": {}},
        {"nodes": []},
        {"jobs": None, "errors": [{"description": "Unspecified error", "error_number": -1}]},
        {"jobs": [], "errors": [{"error": "Zero Bytes were transmitted or received"}]},
    ],
)
def test_null_is_not_no_jobs(told: dict[str, Any]) -> None:
    with pytest.raises(SlurmError):
        parse_json.jobs(parse_json.document(json.dumps(told)))


def test_an_empty_list_is_no_jobs() -> None:
    assert parse_json.jobs(parse_json.document('{"jobs": [], "errors": [], "warnings": []}')) == []


@pytest.mark.parametrize("name", ["mem05.", "mem05.cluster.local", "MEM05"])
def test_a_name_that_is_not_slurms_own_is_an_error_and_never_a_state(name: str) -> None:
    with pytest.raises(SlurmRefusedError):
        SlurmDouble(node("mem05")).node(name)


def test_a_name_with_a_trailing_dot_is_still_one_name() -> None:
    """It reaches Slurm as it is and Slurm says that it knows no such node."""
    assert plain_node_name("mem05.") == "mem05."


@pytest.mark.parametrize("fault", ["gpu_xid.79", "gpu_memtest.slow", "oldcheck", "ib_link.down.twice"])
def test_renaming_a_check_orphans_no_drain(fault: str) -> None:
    """A reason of ours stays ours, whether or not this version still has such a check."""
    drained = node(state="IDLE+DRAIN", reason=reasons.build(fault, "gpu1"))
    assert states.may_resume(drained, OWNERS)
    assert states.counts_against_budget(drained)


@pytest.mark.parametrize(
    "edit",
    [
        "{} CASE-77",
        "{} (mira)",
        "TICKET-9 {}",
        "{}; see wiki",
        "{}\n2nd line",
        "{} [root@2031-01-01T10:00:00]",
    ],
)
def test_an_admins_addition_to_our_reason_makes_it_theirs(edit: str) -> None:
    ours = reasons.build("gpu_remap.pending", "gpu1")
    drained = node(state="IDLE+DRAIN", reason=edit.format(ours))
    for written in (None, ours):
        assert not states.may_resume(drained, OWNERS, written)
        assert not states.may_drain(drained, OWNERS, written)


@pytest.mark.parametrize(
    "reason",
    [
        "gres/gpu count reported lower than configured (0 < 8)",
        "gres/gpu count reported lower than configured (7 < 8)",
        "Low RealMemory (reported:500000 < 100.00% of configured:2000000)",
        "Not responding",
        "Kill task failed",
        "batch job complete failure",
        "MAINT FAN SWAP",
        "NHC: check_ps_service: nfslock not running",
    ],
)
def test_a_drain_that_slurm_or_another_tool_made_is_theirs(reason: str) -> None:
    for user in ("root", "slurm"):
        drained = node(state="IDLE+DRAIN", reason=reason, reason_user=user)
        assert not states.may_drain(drained, OWNERS)
        assert not states.may_resume(drained, OWNERS)


@pytest.mark.parametrize("state", ["UNKNOWN+DRAIN+INVALID_REG", "inval", "IDLE+DRAIN+INVALID_REG"])
def test_a_node_that_slurm_calls_invalid_is_left_alone(state: str) -> None:
    """Its GPUs do not match slurm.conf: what our reason says is no longer all that is wrong with it."""
    invalid = node(state=state, reason=reasons.build("gpu_count.missing", "gpu6"))
    assert not states.may_drain(invalid, OWNERS)
    assert not states.may_resume(invalid, OWNERS)
