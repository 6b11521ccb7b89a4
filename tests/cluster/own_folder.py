"""A cluster's folder, and the promise that nothing runs or is mounted there afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minicluster.mounting import mounted_at_or_below
from minicluster.processes import MARK, environment_of

COMMAND = Path(__file__).resolve().parents[2] / "contrib/minicluster/bin/minicluster"


@contextmanager
def own_folder() -> Iterator[Path]:
    """A folder that Slurm's user may enter; afterwards nothing may run or be mounted there."""
    path = Path(tempfile.mkdtemp(prefix="minicluster-"))
    path.chmod(0o755)
    try:
        yield path
        left, mounted = processes_of(path), mounted_at_or_below(path)
    finally:
        for place in (path, *path.iterdir()):
            if (place / "cluster.json").exists():
                subprocess.run([COMMAND, "down", str(place)], check=False, timeout=100)
    assert (left, mounted) == ([], [])
    shutil.rmtree(path)


def processes_of(path: Path) -> list[str]:
    """Command lines of the processes that belong to the cluster in this folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        environment = environment_of(int(entry.name))
        marks = (environment.get("SLURM_CONF", ""), environment.get(MARK, ""))
        if command and (
            f"{path}/" in f"{command}/ " or any(f"{mark}/".startswith(f"{path}/") for mark in marks)
        ):
            found.append(command)
    return found
