"""Writes of a run: in a child with a deadline, and none at all while an earlier one still hangs.

A sick disk keeps its writer in the kernel, where no signal reaches it. Each run would leave one more behind.
"""

from __future__ import annotations

import time

from slurm_guard.engine import child, files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from slurm_guard.core.paths import Places

#: For the line in the run folder that names a writer left behind.
_NOTE_S = 0.3


def write(places: Places, work: Callable[[], None], seconds: float) -> str:
    """Run `work`; `done`, `failed: why`, or `hung`, with what is known of the process that hangs."""
    left = files.read_json(places.writer)
    if left is not None and _lives(left):
        return (
            f"hung: process {left['pid']} of an earlier run still hangs in its write, since {left['since']}"
        )
    written, pid = child.attempt(work, seconds)
    if pid is None:
        return written
    content = {"pid": pid, "start_time": child.start_time(pid), "since": _now()}
    child.bounded(lambda: _note(places, content), _NOTE_S)
    return f"{written}: process {pid} hangs in the kernel and was left behind"


def _note(places: Places, content: dict[str, Any]) -> None:
    files.make_folder(places.run)
    files.write_json(places.writer, content)


def _lives(left: dict[str, Any]) -> bool:
    pid, started = left.get("pid"), left.get("start_time")
    return isinstance(pid, int) and isinstance(started, int) and child.lives(pid, started)


def _now() -> str:
    return time.strftime("%H:%M:%S UTC", time.gmtime())
