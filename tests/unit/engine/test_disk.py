"""A disk that hangs its writers costs one process, not one a run."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from slurm_guard.core.context import Context
from slurm_guard.core.paths import Places
from slurm_guard.engine import child, disk, worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(str(tmp_path))


def hang() -> None:
    threading.Event().wait()


def fail() -> None:
    raise OSError(5, "Input/output error")


@pytest.mark.parametrize(
    ("work", "seconds", "expected"),
    [
        (lambda: None, 20.0, "done"),
        (fail, 20.0, "failed: OSError: [Errno 5] Input/output error"),
        (hang, 0.05, "hung"),  # a signal ended it
    ],
)
def test_what_became_of_a_write(
    places: Places, work: Callable[[], None], seconds: float, expected: str
) -> None:
    assert disk.write(places, work, seconds) == expected
    assert not os.path.exists(places.writer)


def test_nothing_is_written_while_an_earlier_writer_hangs(
    places: Places, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    touched, immortal = tmp_path / "touched", []
    monkeypatch.setattr(child, "kill_and_leave", lambda pid, *_: immortal.append(pid) or True)
    found = disk.write(places, hang, 0.05)
    monkeypatch.undo()
    try:
        assert found == f"hung: process {immortal[0]} hangs in the kernel and was left behind"
        again = disk.write(places, touched.touch, 20.0)
        assert again.startswith(
            f"hung: process {immortal[0]} of an earlier run still hangs in its write, since "
        )
        assert not touched.exists()
    finally:
        child.kill_and_leave(immortal[0], 5.0)
    assert disk.write(places, touched.touch, 20.0) == "done"
    assert touched.exists()


@pytest.mark.parametrize("written", ["hung", "hung: process 7 of an earlier run still hangs in its write"])
def test_a_sick_disk_leaves_no_allocation_open_and_keeps_this_boots_memory(
    places: Places, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    """Else the jobs of that time would count as running on this node until the next boot."""
    monkeypatch.setattr(disk, "write", lambda *_: written)
    opened = []
    for hook in ("prolog", "epilog"):
        context = Context(hook, {"SLURM_JOB_ID": "5", "SLURMD_NODENAME": "n1"})
        worker.run(hook, places, context, lambda message: None)
        opened.append(os.listdir(places.allocations))
    assert opened == [["5.json"], []]
    assert os.path.exists(places.state)
    assert not os.path.exists(places.spool)
