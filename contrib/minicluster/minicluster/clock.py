"""The nodes' uptime goes on: one small process per cluster rewrites `proc/uptime` every second.

A reboot changes the boot time in the node's state file, and the uptime follows.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from minicluster.files import locked, write_atomically
from minicluster.machine.model import CPUS


def uptime_text(boot_time: float, now: float) -> str:
    """A line of /proc/uptime: seconds since boot, idle seconds of all processors."""
    seconds = max(0.0, now - boot_time)
    return f"{seconds:.2f} {seconds * CPUS * 0.97:.2f}\n"


def write_uptime(root: Path, boot_time: float) -> None:
    """Write `proc/uptime` of one node."""
    write_atomically(root / "proc/uptime", uptime_text(boot_time, time.time()))


def lock_of(state: Path) -> Path:
    """Who changes a machine, or its uptime, holds this."""
    return state.with_suffix(".lock")


def tick(directory: Path) -> None:
    """Bring every node's uptime up to date; one that changes just now, or can't be written, is left out."""
    for state in sorted((directory / "machines").glob("*.json")):
        root = directory / "nodes" / state.stem
        with contextlib.suppress(OSError, ValueError), locked(lock_of(state), wait=False) as is_ours:
            if is_ours and (root / "proc").is_dir():
                write_uptime(root, float(json.loads(state.read_text())["boot_time"]))


def main() -> None:
    """Tick until ended, or until the cluster's folder is gone."""
    directory = Path(sys.argv[1])
    while directory.is_dir():
        tick(directory)
        time.sleep(1.0)


if __name__ == "__main__":
    main()
