"""Fuzz targets hold on their seeds and on everything that a fuzz run ever found, with and without atheris."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fuzz import one
from fuzz.targets import Target, all_targets, require

CHECKOUT = Path(__file__).resolve().parents[3]
NAMES = tuple(all_targets())
#: Targets put doubles in the place of sockets and of munge, so they run in a process of their own.
PROGRAM = """
import sys, traceback
from pathlib import Path
from fuzz.targets import all_targets
for target in all_targets().values():
    kept = [path.read_bytes() for path in sorted(Path("fuzz/found", target.name).glob("*"))]
    cut = [seed[:at] for seed in target.seeds for at in (0, 1, len(seed) // 2)]
    for data in (*target.seeds, *kept, *cut):
        try:
            target.run(data)
        except Exception:
            print(target.name, data[:200], traceback.format_exc(limit=-3))
"""


def test_seeds_and_all_that_was_ever_found() -> None:
    argv = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_finding_belongs_to_a_target() -> None:
    assert {path.name for path in (CHECKOUT / "fuzz/found").iterdir()} <= set(NAMES)


def test_without_atheris_a_fault_is_found_and_kept(tmp_path: Path) -> None:
    def run(data: bytes) -> None:
        require(b"x" not in data, "an x")

    target = Target("made_up", "", run, (b"abcxdef",))
    with pytest.raises(AssertionError, match="an x"):
        one._mutate(target, 5, tmp_path)
    (kept,) = tmp_path.iterdir()
    assert b"x" in kept.read_bytes()
