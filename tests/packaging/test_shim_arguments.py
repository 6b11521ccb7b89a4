"""The shims in a checkout: what they do with arguments, and from where they can be called."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

HOOKS = ("prolog", "epilog", "healthcheck")
WRONG = (
    ["--help"],
    ["--root"],
    ["--root", ""],
    ["--root={root}"],
    ["prolog"],
    ["--root", "{root}", "-v"],
    ["", "--root", "{root}"],
)


def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {"SLURMD_NODENAME": "n1", "SLURM_JOB_ID": "5", "SLURM_JOB_UID": "0"}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("words", WRONG, ids=[" ".join(words) for words in WRONG])
@pytest.mark.parametrize("hook", HOOKS)
def test_unknown_arguments_check_nothing_and_fail_no_job(
    repository: Path, tmp_path: Path, hook: str, words: list[str]
) -> None:
    shim = (repository / hook / f"sguard-{hook}").read_text()
    started = tmp_path / "started"
    broken = tmp_path / hook / f"sguard-{hook}"
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").write_text(f"#!/bin/sh\n: > {started}\n")
    (tmp_path / ".venv/bin/python").chmod(0o755)
    (tmp_path / "slurm_guard/engine").mkdir(parents=True)
    (tmp_path / "slurm_guard/engine/boot.py").touch()
    broken.parent.mkdir()
    broken.write_text(shim)
    broken.chmod(0o755)
    done = run([str(broken), *(word.format(root=tmp_path) for word in words)], tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"usage: sguard-{hook} [--root DIR] (nothing was checked)\n"
    assert not started.exists()
    assert run([str(broken), "--root", str(tmp_path)], tmp_path).returncode == 0
    assert started.exists(), "else this test proves nothing"


def test_unknown_arguments_are_told_to_the_system_log(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("s")  # a socket's path may not be longer than 108 bytes
    logger = folder / "logger"
    logger.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" > {folder}/said\n')
    logger.chmod(0o755)
    shim = folder / "sguard-prolog"
    text = (repository / "prolog/sguard-prolog").read_text()
    shim.write_text(text.replace("PATH=/usr/sbin", f"PATH={folder}:/usr/sbin", 1))
    assert run(["/bin/sh", str(shim), "--help"], folder).returncode == 0
    said = (folder / "said").read_text()
    assert said.startswith("-u /dev/log -t sguard -p daemon.err prolog on n1: unknown arguments")


@pytest.mark.parametrize("hook", HOOKS)
def test_a_shim_is_found_without_a_path(repository: Path, tmp_path: Path, hook: str) -> None:
    (tmp_path / "proc").mkdir()
    done = run(["/bin/sh", f"sguard-{hook}", "--root", str(tmp_path)], repository / hook)
    assert done.returncode == 0
    (record,) = (tmp_path / "var/lib/slurm-guard/spool").glob("*.json")
    assert json.loads(record.read_text())["hook"] == hook
