"""Where the spools are: which folders below a folder hold run records, and which of their files those are.

Records are removed when they are in the store, so nothing is a spool that does not plainly look like one.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_guard.core.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What the guard calls a spool, and the folder that it lies in on a node.
NAME, HOME = "spool", "slurm-guard"
#: A record's file name, as `engine.spool.file_name` makes it.
RECORD = re.compile(r"[hr]-[0-9]{16}-[0-9a-f]{32}\.json")
_NOT_ENTERED = ("set-aside", "proc", "sys", "dev")
#: `DIR/nodes/n1/var/lib/slurm-guard/spool` is six levels down.
_DEEPEST = 8


class Search:
    """The spools in a folder and below it; `unread` are folders that could not be listed, with the reason.

    Links are not followed, and no mount point is entered unless it is a spool itself: one that hangs would
    hang the search too.
    """

    def __init__(self, top: Path) -> None:
        self.top = top.resolve()
        self.unread: list[tuple[str, str]] = []
        self._mounts = _mount_points()

    def spools(self) -> Iterator[tuple[Path, bool]]:
        """Each spool, and whether only its files with a record's name are the guard's.

        Raises SetupError if the folder itself cannot be listed.
        """
        try:
            entries = _listed(self.top)
        except OSError as error:
            raise SetupError(
                f"{self.top}: cannot be listed: {error.strerror}; expected a readable folder"
            ) from error
        if self.top.name != NAME and _holds_records(entries):
            yield self.top, True
        yield from self._walk(self.top, entries, 0)

    def _walk(self, folder: Path, entries: list[os.DirEntry[str]], depth: int) -> Iterator[tuple[Path, bool]]:
        if folder.name == NAME and (folder.parent.name == HOME or _holds_records(entries)):
            yield folder, False
        if depth >= _DEEPEST:
            return
        for entry in entries:
            if not self._is_entered(entry):
                continue
            try:
                found = _listed(Path(entry.path))
            except OSError as error:
                self.unread.append((entry.path, error.strerror or str(error)))
                continue
            yield from self._walk(Path(entry.path), found, depth + 1)

    def _is_entered(self, entry: os.DirEntry[str]) -> bool:
        if entry.name.startswith(".") or entry.name in _NOT_ENTERED:
            return False
        if entry.path in self._mounts and entry.name != NAME:
            return False
        return entry.is_dir(follow_symlinks=False)


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if RECORD.fullmatch(entry.name) or not _is_plain(entry)]
    except FileNotFoundError:
        return []


def _is_plain(entry: os.DirEntry[str]) -> bool:
    return entry.is_symlink() or not entry.is_dir(follow_symlinks=False)


def _holds_records(entries: list[os.DirEntry[str]]) -> bool:
    return any(RECORD.fullmatch(entry.name) for entry in entries)


def _mount_points() -> set[str]:
    """Where something is mounted, without a look at any of it."""
    try:
        table = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return set()
    places = (line.split(" ")[4] for line in table.splitlines() if line.count(" ") > 4)
    return {re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), place) for place in places}
