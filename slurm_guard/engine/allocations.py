"""Open allocations of this node: the prolog writes one file per job, the epilog closes that one.

Slurm gives the epilog of a requeued run the next restart count, so the epilog takes the run's identity from
the prolog's file and never trusts its own environment.
"""

from __future__ import annotations

import os

from slurm_guard.engine import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.context import Context
    from slurm_guard.core.outcome import Facts
    from slurm_guard.core.paths import Places

_KEPT = ("job_id", "restart", "start_time", "uid", "user", "partition", "gpus", "nodes")


def _path(places: Places, job_id: int) -> str:
    return os.path.join(places.allocations, f"{job_id}.json")


def opening(context: Context, boot_id: str, opened_at: str) -> dict[str, Any]:
    """What the prolog leaves for the epilog; the run adds counters and the kernel-log cursor."""
    return {"boot_id": boot_id, "opened_at": opened_at, **{name: getattr(context, name) for name in _KEPT}}


def open_file(places: Places, allocation: dict[str, Any]) -> None:
    """Write the open-allocation file of a job."""
    files.make_folder(places.allocations)
    files.write_json(_path(places, allocation["job_id"]), allocation)


def close_file(places: Places, job_id: int) -> None:
    """Remove the open-allocation file of a job; it may be absent."""
    files.remove(_path(places, job_id))


def find(places: Places, job_id: int | None, boot_id: str) -> Facts | None:
    """The open allocation of a job, None without one of this boot."""
    if job_id is None:
        return None
    content = files.read_json(_path(places, job_id))
    return content if content and content.get("boot_id") == boot_id else None


def all_open(places: Places, boot_id: str) -> list[Facts]:
    """Every open allocation of this boot, by job id; files of earlier boots are not counted."""
    try:
        names = os.listdir(places.allocations)
    except OSError:
        return []
    numbers = sorted(int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdigit())
    found = (find(places, number, boot_id) for number in numbers)
    return [one for one in found if one is not None]
