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


def open_folder(path: str) -> tuple[str, str] | None:
    """The first folder on the way to a secret in which others could put something else in its place.

    Root and the secret's owner may own the folders, and one that is sticky is as good as closed. Links are
    resolved. Returns (folder, why), or None. Raises OSError if the secret is not there.
    """
    resolved = Path(path).resolve(strict=True)
    owners = (0, resolved.stat().st_uid)
    for folder in resolved.parents:
        status = folder.stat()
        if status.st_uid not in owners:
            return str(folder), f"belongs to uid {status.st_uid}"
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX:
            return str(folder), f"is writable by others (mode {stat.S_IMODE(status.st_mode):04o})"
    return None


def mode_of(path: str) -> int:
    """Permission bits of a file, links followed."""
    return stat.S_IMODE(Path(path).stat().st_mode)
