"""Open allocations of this node: the prolog writes one file per job, the epilog closes that one.

Slurm gives the epilog of a requeued run the next restart count, so the epilog takes the run's identity from
the prolog's file and never trusts its own environment. A closed file is kept for a while: slurmctld asks for
the end of a job again when it missed the first answer, and the epilog then runs a second time.
"""

from __future__ import annotations

import contextlib
import os
import time

from slurm_guard.engine import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.context import Context
    from slurm_guard.core.outcome import Facts
    from slurm_guard.core.paths import Places

#: slurmctld asks again after a minute; a job that was requeued starts after two.
CLOSED_S = 600.0
_CLOSED = ".closed"
_KEPT = ("job_id", "restart", "start_time", "uid", "user", "partition", "gpus", "nodes")


def _path(places: Places, job_id: int) -> str:
    return os.path.join(places.allocations, f"{job_id}.json")


def _closed(places: Places, job_id: int) -> str:
    return os.path.join(places.allocations, f"{job_id}{_CLOSED}")


def opening(context: Context, boot_id: str, opened_at: str) -> dict[str, Any]:
    """What the prolog leaves for the epilog; the run adds counters and the kernel-log cursor."""
    return {"boot_id": boot_id, "opened_at": opened_at, **{name: getattr(context, name) for name in _KEPT}}


def open_file(places: Places, allocation: dict[str, Any]) -> None:
    """Write the open-allocation file of a job."""
    files.make_folder(places.allocations)
    files.write_json(_path(places, allocation["job_id"]), allocation)
    files.remove(_closed(places, allocation["job_id"]))


def close_file(places: Places, job_id: int) -> None:
    """Close the open-allocation file of a job, which may be absent; those closed long ago go."""
    with contextlib.suppress(FileNotFoundError):
        os.rename(_path(places, job_id), _closed(places, job_id))
        os.utime(_closed(places, job_id))
    for name in _names(places):
        path = os.path.join(places.allocations, name)
        with contextlib.suppress(OSError):
            if name.endswith(_CLOSED) and time.time() - os.stat(path).st_mtime > CLOSED_S:
                os.unlink(path)


def find(places: Places, job_id: int | None, boot_id: str) -> Facts | None:
    """The open allocation of a job, None without one of this boot."""
    if job_id is None:
        return None
    content = files.read_json(_path(places, job_id))
    return content if content and content.get("boot_id") == boot_id else None


def find_closed(places: Places, job_id: int | None, boot_id: str, restart: int) -> Facts | None:
    """The allocation of a run whose epilog runs once more, None if that is not the one that was closed last.

    `restart` is the epilog's own count: that of its run, or one more where that was requeued.
    """
    content = files.read_json(_closed(places, job_id)) if job_id is not None else None
    if not content or content.get("boot_id") != boot_id or not isinstance(content.get("restart"), int):
        return None
    return content if restart - content["restart"] in (0, 1) else None


def all_open(places: Places, boot_id: str) -> list[Facts]:
    """Every open allocation of this boot, by job id; files of earlier boots are not counted."""
    names = _names(places)
    numbers = sorted(int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdigit())
    found = (find(places, number, boot_id) for number in numbers)
    return [one for one in found if one is not None]


def _names(places: Places) -> list[str]:
    try:
        return os.listdir(places.allocations)
    except OSError:
        return []
