"""`sguard job`: records, accounting, and what is said where one of them is missing."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from slurm_guard.cli.main import main
from slurm_guard.core.errors import SlurmError, SlurmUnreachableError
from slurm_guard.slurm.gateway import JobInfo, JobRun
from tests.unit.cli.slurm_stub import finding, put, run_record

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.slurm_stub import StubGateway

LOST = finding("gpu_count.lost", "gpu3", event=True)


def run(root: Path, *arguments: str) -> int:
    return main(["job", *arguments, "--root", str(root)])


def allocation(**fields: Any) -> dict[str, Any]:
    base = {"job_id": 42, "restart": 0, "uid": 1, "user": "ann", "partition": "main", "nodes": "n2"}
    return {**base, "gpus": ["3"], **fields}


def put_job(root: Path, *seen: dict[str, Any], exit_code: str = "0:0", **fields: Any) -> None:
    """A job's prolog five minutes ago and its epilog one minute ago."""
    put(
        root,
        run_record("n2", hook="prolog", ago_s=300, allocation=allocation(**fields)),
        run_record(
            "n2", *seen, hook="epilog", ago_s=60, allocation=allocation(exit_code=exit_code, **fields)
        ),
    )


def accounted(state: str, code: int, **fields: Any) -> JobRun:
    now = round(time.time())
    times = {"submit_time": now - 310, "start_time": now - 300, "end_time": now - 60}
    return JobRun(
        job_id=42, state=state, exit_code=code, exit_signal=0, user="ann", nodes="n2", **times, **fields
    )


def test_a_healthy_job(root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]) -> None:
    put_job(root)
    slurm.runs["42"] = [accounted("COMPLETED", 0), accounted("COMPLETED", 0, step="batch")]
    assert run(root, "42") == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("Job 42")
    assert captured.err == ""
    assert max(len(line) for line in captured.out.splitlines()) <= 80


def test_a_job_that_a_node_broke(root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]) -> None:
    put_job(root, LOST, exit_code="1:0")
    slurm.runs["42"] = [accounted("FAILED", 1)]
    assert run(root, "42", "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["kind"], found["job_id"]) == ("1.0", "job", 42)
    verdict = found["runs"][0]["verdict"]
    assert (verdict["blame"], verdict["fault"]) == ("node", "gpu_count.lost")
    assert found["runs"][0]["state"] == "FAILED"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            SlurmUnreachableError("sacct gave no answer within 3 s"),
            "accounting: sacct gave no answer within 3 s",
        ),
        (None, "slurmctld no longer knows the job"),
    ],
)
def test_what_slurm_does_not_say_is_said(
    error: SlurmError | None, said: str, root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    put_job(root, LOST, exit_code="1:0")
    slurm.error = error
    assert run(root, "42") == 1
    captured = capsys.readouterr()
    assert "gpu_count.lost" in captured.out
    assert captured.err.startswith("sguard: without Slurm's word: ")
    assert said in captured.err


def test_slurmctld_stands_in_for_accounting(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    put_job(root, LOST, exit_code="1:0")
    now = round(time.time())
    slurm.jobs["42"] = JobInfo(
        job_id=42, state="FAILED", exit_code=1, start_time=now - 300, end_time=now - 60
    )
    assert run(root, "42", "--json") == 1
    assert json.loads(capsys.readouterr().out)["runs"][0]["state"] == "FAILED"


def test_no_slurm_asks_nothing(root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]) -> None:
    put_job(root)
    run(root, "42", "--no-slurm")
    captured = capsys.readouterr()
    assert slurm.calls == 0
    assert captured.err == ""
    assert captured.out.startswith("Job 42")


def test_a_job_that_only_slurm_knows_is_never_healthy(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.runs["42"] = [accounted("COMPLETED", 0)]
    assert run(root, "42") == 1
    assert "unknown" in capsys.readouterr().out


def test_nobody_knows_the_job(root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(root, "43") == 20
    said = capsys.readouterr().err
    assert "job 43 is not on record here: no run of a hook names it" in said
    assert "Slurm tells nothing: slurmctld no longer knows the job" in said
    assert run(root, "43", "--no-slurm", "--json") == 20
    captured = capsys.readouterr()
    assert "Slurm was not asked (--no-slurm)" in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("text", ["", "x", "-1", "4.2", "42.batch", "42_", "42+", "1" * 11])
def test_what_is_no_job_id(
    text: str, root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(root, "--", text) == 2 or text == "-1"
    assert slurm.calls == 0
    capsys.readouterr()


def test_array_tasks(root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]) -> None:
    put_job(root, array_job_id=40, array_task_id=2)
    slurm.runs["40_2"] = [accounted("COMPLETED", 0)]
    assert run(root, "40_2") == 0
    assert capsys.readouterr().out.startswith("Job 42 (array 40_2)")
    slurm.runs.clear()
    run(root, "40_2", "-M", "lab")
    assert capsys.readouterr().out.startswith("Job 42 (array 40_2)")
    assert run(root, "40_3") == 20
    assert run(root, "40+1") == 20
    assert "give the plain id" in capsys.readouterr().err
