"""Slurm's text columns: golden outputs of three versions, hostile values, torn answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core.errors import SlurmError
from slurm_guard.slurm import parse_text, states

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "slurm"
VERSIONS = sorted(folder.name for folder in GOLDEN.iterdir())
TOKEN = "<TOKEN>"
OURS = "SG:ib_link.down mlx5_2/1"
HOSTILE = "waiting for a DIMM\nNodeName=n1 State=IDLE Reason=SG:gpu_xid.48 gpu1 — ü"


def golden(version: str, name: str) -> str:
    return (GOLDEN / version / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("version", VERSIONS)
def test_nodes_of_each_version(version: str) -> None:
    found = {node.name: node for node in parse_text.nodes(golden(version, "nodes.txt"), TOKEN, 7.5)}
    assert sorted(found) == ["n1", "n2", "n3", "n4"]
    assert (found["n1"].flags, found["n1"].reason) == (frozenset(), "")
    assert found["n1"].base in ("idle", "mixed")
    assert found["n1"].reason_time is None
    ours = found["n2"]
    assert (ours.base, ours.flags, ours.reason) == ("idle", {"DRAIN"}, OURS)
    assert (ours.reason_user, ours.reason_uid, ours.partitions) == ("root", 0, ("main",))
    assert ours.reason_time is not None
    assert ours.comment == "rack 12|left Reason=SG:gpu_xid.48 gpu1 [root@2026-01-01T00:00:00]"
    assert ours.read_at == 7.5
    assert states.may_resume(ours, ["root"])
    assert found["n3"].reason == HOSTILE
    assert not states.may_drain(found["n3"], ["root"])


@pytest.mark.parametrize("version", VERSIONS)
def test_nodes_on_lines_of_their_own_and_in_groups(version: str) -> None:
    grouped = {node.name: node for node in parse_text.nodes(golden(version, "nodes_grouped.txt"), TOKEN, 0.0)}
    single = {node.name: node for node in parse_text.nodes(golden(version, "nodes.txt"), TOKEN, 0.0)}
    assert sorted(grouped) == sorted(single)
    for name in ("n2", "n3"):
        assert (str(grouped[name]), grouped[name].reason) == (str(single[name]), single[name].reason)
        assert grouped[name].comment == single[name].comment
    assert grouped["n4"].base == "idle"


def test_a_line_without_nodes_is_a_partition_without_them() -> None:
    rows = line("", "empty", "n/a", "Unknown", "Unknown", "(null)", "none")
    rows += line("a[08-10],b", "all", "idle", "Unknown", "Unknown", "(null)", "none")
    assert [node.name for node in parse_text.nodes(rows, TOKEN, 0.0)] == ["a08", "a09", "a10", "b"]


def test_node_names_that_cannot_be_read_are_slurms_error() -> None:
    with pytest.raises(SlurmError, match="names that cannot be read"):
        parse_text.nodes(line("a[1-", "all", "idle", "root(0)", "Unknown", "", ""), TOKEN, 0.0)


@pytest.mark.parametrize("version", VERSIONS)
def test_jobs_of_each_version(version: str) -> None:
    found = {
        (job.name, job.array_task_id): job for job in parse_text.jobs(golden(version, "jobs.txt"), TOKEN)
    }
    running = found["pair|of=two\n UserId=daemon(1)", None]
    assert (running.state, running.user, running.uid, running.nodes) == ("RUNNING", "root", 0, "n4")
    assert (running.exit_code, running.exit_signal, running.array_job_id) == (None, None, None)
    assert running.start_time is not None
    failed, killed = found["ends with three", None], found["killed", None]
    assert (failed.state, failed.exit_code, failed.exit_signal) == ("FAILED", 3, 0)
    assert (killed.state, killed.exit_code, killed.exit_signal) == ("FAILED", 0, 9)
    first, second = found["arr", 4], found["arr", 5]
    assert first.array_job_id == second.array_job_id
    assert first.job_id != second.job_id
    assert found["stopped", None].state == "CANCELLED"
    assert found["again", None].restarts is not None


def test_accounting_of_a_requeued_job_has_each_run() -> None:
    found = parse_text.runs(golden("22.05", "runs.txt"), TOKEN)
    again = [run for run in found if run.name == "again"]
    assert [run.state for run in again] == ["REQUEUED", "PENDING"]
    assert len({run.job_id for run in again}) == 1
    assert again[0].submit_time < again[1].submit_time
    assert (again[0].nodes, again[1].nodes) == ("n1", "")
    assert (again[0].elapsed_s, again[1].exit_code) == (2, None)


def test_accounting_of_steps_arrays_and_exit_codes() -> None:
    found = {run.accounted_id: run for run in parse_text.runs(golden("22.05", "runs.txt"), TOKEN)}
    assert (found["4_4"].array_job_id, found["4_4"].array_task_id, found["4_4"].job_id) == (4, 4, 6)
    assert (found["4_4.batch"].step, found["4_4.batch"].job_id, found["4_4.batch"].user) == ("batch", 6, "")
    by_name = {run.name: run for run in found.values() if not run.step}
    assert (by_name["stopped"].state, by_name["stopped"].exit_code) == ("CANCELLED by 0", 0)


def line(*fields: str) -> str:
    return "".join(f"{field}{TOKEN}" for field in fields) + "\n"


def test_a_node_in_two_partitions_is_one_node() -> None:
    rows = [
        line("a1", part, "idle", "Unknown", "Unknown", "(null)", "none") for part in ("fat", "all", "fat")
    ]
    (found,) = parse_text.nodes("".join(rows), TOKEN, 0.0)
    assert found.partitions == ("fat", "all")


def test_het_and_restarted_jobs() -> None:
    times = ["2031-02-03T04:05:06", "N/A", "N/A"]
    fields = ["9", "9", "N/A", "8", "RUNNING", "eve", "4001", "(null)", "gpu", *times]
    row = line(*fields, "65534", "0:0", "a[1-2]", "cpu=4", "None", "(null)", "x")
    (job,) = parse_text.jobs(row, TOKEN)
    assert (job.het_job_id, job.restarts, job.account, job.reason) == (8, None, "", "")
    assert job.start_time == 1927857906


@pytest.mark.parametrize("cut", range(1, 60, 3))
def test_half_an_answer_is_an_error_and_not_fewer_nodes(cut: int) -> None:
    whole = golden("24.11", "nodes.txt")
    torn = whole[:-cut]
    if torn.endswith(TOKEN):
        return  # only the last newline is missing
    with pytest.raises(SlurmError, match="torn"):
        parse_text.nodes(torn, TOKEN, 0.0)


@pytest.mark.parametrize(
    "garbage", ["slurm is down for maintenance\n", f"a{TOKEN}b{TOKEN}\n", f"x{TOKEN}" * 14]
)
def test_garbage_is_an_error(garbage: str) -> None:
    with pytest.raises(SlurmError):
        parse_text.nodes(garbage, TOKEN, 0.0)


def test_an_empty_state_is_an_error_and_an_empty_answer_has_no_nodes() -> None:
    with pytest.raises(SlurmError, match="empty node state"):
        parse_text.nodes(line("a1", "all", "", "root(0)", "Unknown", "", ""), TOKEN, 0.0)
    assert parse_text.nodes("", TOKEN, 0.0) == []


VALUES = st.text(max_size=60).filter(lambda text: TOKEN not in text)


@given(reason=VALUES, comment=VALUES)
def test_no_reason_or_comment_can_counterfeit_another_field(reason: str, comment: str) -> None:
    rows = line("a1", "all", "IDLE+DRAIN", "ana(77)", "2031-02-03T04:05:06", comment, reason)
    rows += line("a2", "all", "IDLE", "Unknown", "Unknown", "(null)", "none")
    first, second = parse_text.nodes(rows, TOKEN, 0.0)
    assert (first.name, first.base, first.flags, first.reason_user) == ("a1", "idle", {"DRAIN"}, "ana")
    assert first.reason in (reason.strip(), "")
    assert (second.name, second.flags) == ("a2", frozenset())


@given(name=VALUES)
def test_a_job_may_have_any_name(name: str) -> None:
    fields = ["9", "9", "N/A", "N/A", "RUNNING", "eve", "4001", "acc", "gpu", "N/A", "N/A", "N/A", "0", "0"]
    (job,) = parse_text.jobs(line(*fields, "a1", "cpu=1", "None", "(null)", name), TOKEN)
    assert (job.job_id, job.user, job.uid) == (9, "eve", 4001)
    assert job.name == name.rstrip(" ")
