"""A node's folders in memory, one set for a process: targets that read files write into them first."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from slurm_guard.core.paths import Places


@cache
def root() -> str:
    """A folder, in memory where that is possible; gone when the process ends."""
    folder = tempfile.mkdtemp(
        prefix="sguard-fuzz-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    )
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def places() -> Places:
    """Its places; `node.json` is read anew."""
    return Places(root())


def put(path: str, content: bytes) -> str:
    """Write a file; its path."""
    file = Path(path)
    try:
        file.write_bytes(content)
    except FileNotFoundError:
        file.parent.mkdir(mode=0o700, parents=True)
        file.write_bytes(content)
    return path
