"""A munged of the bench's own: the system's, if there is one, is left alone."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from minicluster import processes, requirements

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def munged(folder: Path) -> Iterator[tuple[Path, int]]:
    """A munged with a key of its own; its socket and its pid."""
    folder.mkdir()
    key, door = folder / "munge.key", folder / "munge.sock"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(1024))
    argv = [
        requirements.program("munged"),
        "--foreground",
        "--force",
        f"--key-file={key}",
        f"--socket={door}",
    ]
    argv += [f"--{name}-file={folder}/munged.{name}" for name in ("pid", "log", "seed")]
    daemon = processes.launch(folder / "process", argv, folder / "out", folder)
    try:
        end = time.monotonic() + 20
        while not door.exists() and time.monotonic() < end:
            time.sleep(0.01)
        yield door, daemon.pid
    finally:
        processes.end([daemon])
