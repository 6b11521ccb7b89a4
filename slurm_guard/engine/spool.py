"""Run records on disk until they are ingested: one file each, bounded in count, bytes and age.

A file appears whole or not at all (tmp + fsync + rename), needs no lock, no schema and no library. Where
the bounds are reached, the oldest healthchecks without a failure go first; what was dropped is counted and
told.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import time

from slurm_guard.engine import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.paths import Places

#: What a file name starts with, so that trimming need not open files.
_ORDINARY, _GRAVE = "h", "r"
#: A temporary file this old belongs to a run that was killed.
_TMP_AGE_S = 3600.0
#: Signs, in JSON, of what a store may refuse.
_UNKEEPABLE = ("\\u0000", "\\ud", "NaN", "Infinity")
_LARGEST_FLOAT = 1.7e308


def file_name(record: dict[str, Any]) -> str:
    """The record's file name: its weight, its time, its run id."""
    ordinary = record.get("hook") == "healthcheck" and record.get("status") not in ("fail", "timeout")
    return f"{_ORDINARY if ordinary else _GRAVE}-{time.time_ns() // 1000:016d}-{record['run_id']}.json"


def write(places: Places, record: dict[str, Any], limits: dict[str, float]) -> int:
    """Write one record; how many older ones had to go for it. Raises OSError when the disk is full."""
    files.make_folder(places.spool)
    data = encode(record)
    dropped = trim(places, limits, len(data))
    path = os.path.join(places.spool, file_name(record))
    try:
        files.write_atomic(path, data)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise  # what is here is worth more than room that would not help
        dropped += _make_room(places, len(data))
        files.write_atomic(path, data)
    return dropped


def encode(record: dict[str, Any]) -> bytes:
    """A record as every store can keep it: without lone surrogates, NUL characters, NaN and infinity.

    A name in a foreign encoding, a line of garbage or a value that a site's check made up must not cost the
    whole record.
    """
    text = _dumps(record)
    if any(mark in text for mark in _UNKEEPABLE):
        text = _dumps(_plain(record))
    return text.encode()


def _dumps(record: Any) -> str:
    return json.dumps(record, separators=(",", ":"), default=str, skipkeys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode().replace("\0", " ")
    if isinstance(value, dict):
        return {_plain(key): _plain(one) for key, one in value.items() if not _is_endless(one)}
    if isinstance(value, (list, tuple)):
        return [None if _is_endless(one) else _plain(one) for one in value]
    return value


def _is_endless(value: Any) -> bool:
    return isinstance(value, float) and not -_LARGEST_FLOAT <= value <= _LARGEST_FLOAT


def paths(places: Places) -> list[str]:
    """The waiting records, oldest first."""
    try:
        names = [name for name in os.listdir(places.spool) if name.endswith(".json")]
    except OSError:
        return []
    return [os.path.join(places.spool, name) for name in sorted(names, key=_age_key)]


def trim(places: Places, limits: dict[str, float], coming: int = 0) -> int:
    """Remove what is past the bounds; how many records went. Temporary files of killed runs go too."""
    entries = _entries(places)
    total = sum(size for _, size, _ in entries) + coming
    oldest = time.time() - limits["age_s"]
    gone = 0
    for name, size, at in entries:
        over = len(entries) - gone >= limits["files"] or total > limits["bytes"]
        if name.endswith(".json") and (over or at < oldest):
            if _give_up(places, name):
                gone, total = gone + 1, total - size
        elif name.endswith(".tmp") and at < time.time() - _TMP_AGE_S:
            _give_up(places, name)
    return gone


def _give_up(places: Places, name: str) -> bool:
    """Remove a file of the spool; False if it cannot be: that must not keep the next record from the disk."""
    try:
        files.remove(os.path.join(places.spool, name))
    except OSError:
        return False
    return True


def _make_room(places: Places, needed: int) -> int:
    """The disk is full: give up as many ordinary records, oldest first, as this one needs."""
    freed = gone = 0
    for name, size, _ in _entries(places):
        if freed > needed + 8192 or not name.startswith(_ORDINARY):
            break
        if _give_up(places, name):
            freed, gone = freed + size, gone + 1
    return gone


def _age_key(name: str) -> str:
    return name[2:]


def _entries(places: Places) -> list[tuple[str, int, float]]:
    """Name, size and time of each file, in the order in which they are given up."""
    found = []
    with os.scandir(places.spool) as entries:
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                found.append((entry.name, status.st_size, status.st_mtime))
    return sorted(found, key=lambda one: (not one[0].startswith(_ORDINARY), _age_key(one[0])))
