"""Who could change a file that root runs or trusts: its owner, its mode, and every folder above it."""

from __future__ import annotations

import stat
from pathlib import Path


def weak_spot(path: str) -> tuple[str, str] | None:
    """The first file or folder on the way by which somebody other than root could change `path`.

    Links are resolved; a folder that everybody may write to is safe if it is sticky and the entry is root's.
    Returns (path, why), or None if only root can change it. Raises OSError if it is not there.
    """
    resolved = Path(path).resolve(strict=True)
    for place in (resolved, *resolved.parents):
        why = _weakness(place)
        if why:
            return str(place), why
    return None


def _weakness(place: Path) -> str:
    status = place.stat()
    if status.st_uid != 0:
        return f"belongs to uid {status.st_uid}"
    writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if writable and not (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX):
        return f"is writable by others (mode {stat.S_IMODE(status.st_mode):04o})"
    return ""


def mode_of(path: str) -> int:
    """Permission bits of a file, links followed."""
    return stat.S_IMODE(Path(path).stat().st_mode)
