"""The TaskProlog snippet: when it speaks, what it says, and that it never fails a task."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SNIPPET = Path(__file__).resolve().parents[3] / "contrib/taskprolog/sguard-taskprolog"
TOLD = "n2 was refused for this job: SG:fs_mounts.hung /scratch. Not your fault"
COMMENT = f"slurm_guard: {TOLD}"
SAID = f"print slurm_guard: this job was requeued. {TOLD}\n"

BATCH = {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0",
         "SLURM_STEP_ID": "4294967291"}  # fmt: skip


def speak(folder: Path, env: dict[str, str], comment: str = COMMENT, flag: str = "1", more: str = "") -> str:
    """What the snippet prints, with a scontrol that knows job 7; it must end well and quietly."""
    program = folder / "scontrol"
    answer = (
        f"JobId=7 JobName=x\n   AdminComment={comment}\n   Comment=slurm_guard: forged\n   BatchFlag={flag}\n"
    )
    (folder / "answer").write_text(answer)
    program.write_text(f'#!/bin/sh\necho "$@" >> {folder}/calls\n{more}\ncat {folder}/answer\n')
    program.chmod(0o755)
    path = f"{folder}:/usr/bin:/bin"
    done = subprocess.run(
        [str(SNIPPET)], capture_output=True, text=True, check=False, env={**env, "PATH": path}
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_batch_task_of_a_requeued_job(tmp_path: Path) -> None:
    assert speak(tmp_path, BATCH) == SAID
    assert (tmp_path / "calls").read_text() == "show job 7\n"


def test_the_first_task_of_a_job_without_a_batch_script(tmp_path: Path) -> None:
    assert speak(tmp_path, {**BATCH, "SLURM_STEP_ID": "0"}, flag="0") == SAID


@pytest.mark.parametrize(
    "change",
    [
        {"SLURM_RESTART_COUNT": "0"},
        {"SLURM_RESTART_COUNT": ""},
        {"SLURM_RESTART_COUNT": "many"},
        {"SLURM_PROCID": "1"},
        {"SLURM_LOCALID": "3"},
        {"SLURM_STEP_ID": "2"},
        {"SLURM_JOB_ID": ""},
    ],
)
def test_silent_without_asking_slurm(change: dict[str, str], tmp_path: Path) -> None:
    assert speak(tmp_path, {**BATCH, **change}) == ""
    assert not (tmp_path / "calls").exists()


def test_silent_in_the_steps_of_a_batch_job(tmp_path: Path) -> None:
    assert speak(tmp_path, {**BATCH, "SLURM_STEP_ID": "0"}, flag="1") == ""


@pytest.mark.parametrize("comment", ["", "(null)", "ticket 12 of alice", "see slurm_guard: x"])
def test_silent_about_somebody_elses_comment(comment: str, tmp_path: Path) -> None:
    assert speak(tmp_path, BATCH, comment) == ""


def test_control_characters_do_not_get_through(tmp_path: Path) -> None:
    assert speak(tmp_path, BATCH, "slurm_guard: n2\x1b[2J $(reboot) `x`") == (
        "print slurm_guard: this job was requeued. n2[2J $(reboot) `x`\n"
    )


@pytest.mark.parametrize("more", ["exit 1", "kill -9 $$"])
def test_a_failing_scontrol_is_silence(more: str, tmp_path: Path) -> None:
    assert speak(tmp_path, BATCH, more=more) == ""


def test_a_hanging_scontrol_is_given_up(tmp_path: Path) -> None:
    assert speak(tmp_path, BATCH, more="exec sleep 600") == ""


def test_without_programs_it_is_silent() -> None:
    done = subprocess.run([str(SNIPPET)], capture_output=True, check=False, env={**BATCH, "PATH": "/nowhere"})
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_it_is_executable() -> None:
    assert os.access(SNIPPET, os.X_OK)
