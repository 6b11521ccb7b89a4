"""The bash completion file, in a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_sguard "$SGUARD"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sguard", "dr"], ["drains", "drain"]),
        (["sguard", "check", ""], ["list", "show", "run"]),
        (["sguard", "job", "--no"], ["--no-slurm"]),
        (["sguard", "nonsense", ""], [""]),
        (["sguard", "check", "run", "--hook", ""], ["prolog", "epilog", "healthcheck"]),
        (["sguard", "policy", "test", "--hook", "e"], ["epilog"]),
        (["sguard", "check", "show", "gpu_r"], ["gpu_remap"]),
        (["sguard", "check", "show", "gpu_remap.b"], ["gpu_remap.banks"]),
        (["sguard", "check", "run", "gpu_count", "ib_l"], ["ib_link"]),
    ],
)
def test_completion(words: list[str], expected: list[str], repository: Path, tmp_path: Path) -> None:
    program = tmp_path / "sguard"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m slurm_guard.cli.main "$@"\n')
    program.chmod(0o755)
    bash = shutil.which("bash")
    assert bash
    done = subprocess.run(
        [bash, "-c", SCRIPT, "bash", str(repository / "contrib/bash_completion/sguard"), *words],
        capture_output=True, text=True, check=True, cwd=repository,
        env={**os.environ, "SGUARD": str(program)},
    )  # fmt: skip
    assert done.stdout.splitlines() == expected
    assert done.stderr == ""
