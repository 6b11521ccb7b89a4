"""A node's folders, one set for a process: targets that read files write into them first."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from slurm_guard.core.paths import Places


@cache
def root() -> str:
    """A folder below TMPDIR; gone when the process ends (libFuzzer ends it without a word: see `__main__`)."""
    folder = tempfile.mkdtemp(prefix="sguard-fuzz-")
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
