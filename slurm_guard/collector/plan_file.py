"""The bundle that nodes get: read when it changes, checked as a node does; a bad one leaves the last one."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from typing import TYPE_CHECKING, NamedTuple

from slurm_guard.core import plan
from slurm_guard.core.paths import without_waiting

if TYPE_CHECKING:
    from pathlib import Path

LOOK_S = 1.0
_HASH = re.compile(r"[0-9a-f]{32}")


class Bundle(NamedTuple):
    """A plan as it lies on disk, its hash and its cluster's name."""

    hash: str
    body: bytes
    cluster: str


class PlanFile:
    """The plan of one path. `problem` says why the newest file is not the one that is served, if so."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bundle: Bundle | None = None
        self._seen: tuple[int, int, int] | None = None
        self._looked = float("-inf")
        self._turn = asyncio.Lock()
        self.problem = ""

    async def current(self) -> Bundle | None:
        """The newest good bundle there was; looked for once a second, read in a thread."""
        if time.monotonic() - self._looked >= LOOK_S:
            async with self._turn:
                if time.monotonic() - self._looked >= LOOK_S:
                    await asyncio.to_thread(self.look)
                    self._looked = time.monotonic()
        return self._bundle

    def look(self) -> Bundle | None:
        """The same now, in this thread."""
        try:
            status = self._path.stat()
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if seen != self._seen:
                self._bundle = read(self._path)
                self._seen, self.problem = seen, ""
        except FileNotFoundError:
            self.problem = f"no plan at {self._path}; run `sguard config apply` on this host"
        except (OSError, ValueError) as error:
            self.problem = (
                f"{self._path}: {getattr(error, 'strerror', None) or error}; nodes get the last good one"
            )
        return self._bundle


def read(path: Path) -> Bundle:
    """Read a bundle whole. Raises OSError, or ValueError with what is wrong."""
    with open(path, "rb", opener=without_waiting) as file:
        if os.fstat(file.fileno()).st_size > plan.LARGEST:
            raise ValueError(f"larger than {plan.LARGEST} bytes")
        raw = file.read(plan.LARGEST + 1)
    try:
        found = json.loads(raw)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(found, dict) or not _HASH.fullmatch(str(found.get("hash"))):
        raise ValueError("not a plan")
    if not plan.is_whole(raw, found):
        raise ValueError("its content does not match its hash")
    if str(found.get("schema", "")).partition(".")[0] not in (str(plan.MAJOR), str(plan.MAJOR - 1)):
        raise ValueError(f"plan version {found.get('schema')!r}")
    return Bundle(found["hash"], raw, str(found.get("cluster") or ""))
