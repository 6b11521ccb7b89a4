"""The processes that the guard runs on a node of the test cluster: hooks, their children, detached ones."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from minicluster import processes
from minicluster.processes import Identity


def of_the_guard(root: Path) -> list[Identity]:
    """All that the guard runs on a node now, detached children too."""
    found = []
    for name in os.listdir("/proc"):
        # The process first, then what it runs: if the pid is somebody else's by now, nothing is sent to it.
        identity = processes.identify(int(name)) if name.isdigit() else None
        if identity is not None and _runs_the_guard(identity.pid, str(root)):
            found.append(identity)
    return found


def kill_all(root: Path) -> None:
    """SIGKILL for all of them, as the end of the machine would be."""
    for identity in of_the_guard(root):
        processes.send(identity, signal.SIGKILL)


def at_work(root: Path) -> list[Identity]:
    """Those that are not stuck on a mount that hangs: these are left behind, and end with it."""
    return [identity for identity in of_the_guard(root) if not _is_stuck(identity.pid)]


def _runs_the_guard(pid: int, root: str) -> bool:
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        return root in words and any("sguard-" in word or word.endswith("boot.py") for word in words)
    return False


def _is_stuck(pid: int) -> bool:
    with suppress(OSError):
        channel = Path(f"/proc/{pid}/wchan").read_text()
        return "request_wait_answer" in channel or "fuse" in channel
    return False
