"""slurmctld asks for a job's end again when it missed the answer: the second epilog is of the same run."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurm_guard.core.context import Context
from slurm_guard.core.paths import Places
from slurm_guard.engine import allocations

if TYPE_CHECKING:
    from .conftest import NodeRoot

BOOT = "b-1"


def opened(places: Places, job: int, restart: int) -> None:
    env = {"SLURM_JOB_ID": str(job), "SLURM_JOB_RESTART_COUNT": str(restart)}
    allocations.open_file(
        places, allocations.opening(Context("prolog", env), BOOT, "2026-03-04T05:06:07.000Z")
    )


@pytest.mark.parametrize("counted", ["0", "1"])
def test_it_is_filed_under_the_run_that_its_prolog_began(node: NodeRoot, counted: str) -> None:
    node.run("prolog", job=41, SLURM_JOB_RESTART_COUNT="0")
    node.run("epilog", job=41, SLURM_JOB_RESTART_COUNT=counted)
    node.run("epilog", job=41, SLURM_JOB_RESTART_COUNT=counted)
    kept = [one["allocation"] for one in node.records()]
    assert [one["restart"] for one in kept] == [0, 0, 0]
    assert len({one["opened_at"] for one in kept}) == 1
    assert "prolog" not in node.records()[-1]["coverage"]


def test_the_next_run_is_another(node: NodeRoot) -> None:
    for hook, counted in (("prolog", "0"), ("epilog", "1"), ("prolog", "1"), ("epilog", "1")):
        node.run(hook, job=41, SLURM_JOB_RESTART_COUNT=counted)
    assert [one["allocation"]["restart"] for one in node.records()] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("restart", "boot", "found"), [(2, BOOT, True), (3, BOOT, True), (4, BOOT, False), (1, BOOT, False)]
)
def test_only_the_run_that_was_closed_last_is_meant(
    tmp_path: Path, restart: int, boot: str, found: bool
) -> None:
    places = Places(str(tmp_path))
    opened(places, 41, 2)
    assert allocations.find_closed(places, 41, BOOT, 2) is None  # it is still open
    allocations.close_file(places, 41)
    allocations.close_file(places, 41)
    assert (allocations.find_closed(places, 41, boot, restart) is not None) == found
    assert allocations.find_closed(places, 41, "another boot", restart) is None
    assert allocations.find_closed(places, 42, BOOT, restart) is None


def test_closed_ones_are_no_open_ones_and_go_in_time(tmp_path: Path) -> None:
    places = Places(str(tmp_path))
    for job in (41, 42):
        opened(places, job, 0)
        allocations.close_file(places, job)
    assert allocations.all_open(places, BOOT) == []
    old = time.time() - allocations.CLOSED_S - 1
    os.utime(Path(places.allocations, "41.closed"), (old, old))
    opened(places, 43, 0)
    allocations.close_file(places, 43)
    assert sorted(os.listdir(places.allocations)) == ["42.closed", "43.closed"]
