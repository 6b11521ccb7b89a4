"""`make demo` where it cannot run: one line that says what is missing, and what to do."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def run(repository: Path, folder: Path, seed: str, uid: int) -> subprocess.CompletedProcess[str]:
    """The script with an `id` that tells this uid; nothing else is on the PATH that could start a demo."""
    fake = folder / "bin"
    fake.mkdir()
    (fake / "id").write_text(f"#!/bin/sh\necho {uid}\n")
    (fake / "id").chmod(0o755)
    (fake / "dirname").symlink_to("/usr/bin/dirname")
    command = ["/bin/bash", str(repository / "scripts/run-demo.sh"), seed]
    return subprocess.run(
        command, env={"PATH": str(fake)}, capture_output=True, text=True, check=False, timeout=30
    )


@pytest.mark.parametrize("seed", ["abc", "-1", "7.5", "7 8", "$(id)"])
def test_a_seed_that_is_no_number_is_one_line(repository: Path, tmp_path: Path, seed: str) -> None:
    done = run(repository, tmp_path, seed, 0)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"demo: SEED={seed} is not a whole number; for example: make demo SEED=7\n"


def test_without_root_one_line_says_what_to_run(repository: Path, tmp_path: Path) -> None:
    done = run(repository, tmp_path, "7", 1000)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    for part in ("not root", "sudo make demo", "make unit", ".venv/bin/sguard"):
        assert part in done.stderr
