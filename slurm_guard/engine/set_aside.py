"""Records that the collector refused: kept beside the spool with the reason, for a person to look at.

`NAME.json` is the record, `NAME.json.why` the reason. Moving the record back into the spool sends it again.
"""

from __future__ import annotations

import os

from slurm_guard.engine import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from slurm_guard.core.paths import Places

FOLDER, REASON = "set-aside", ".why"


def put(places: Places, path: str, why: str, limits: dict[str, float]) -> None:
    """Move one file of the spool aside; the reason is written first, so that no crash in between loses it.

    A full disk costs the reason, not the record. Raises OSError if the record cannot be moved.
    """
    folder = os.path.join(places.var, FOLDER)
    target = os.path.join(folder, os.path.basename(path))
    files.make_folder(folder)
    try:
        files.write_atomic(target + REASON, f"{' '.join(why.split())[:1000]}\n".encode("utf-8", "replace"))
    except OSError:
        pass
    try:
        os.rename(path, target)
    except FileNotFoundError:
        return  # trimmed, or ingested here, meanwhile
    _trim(folder, limits)


def _trim(folder: str, limits: dict[str, float]) -> None:
    """Hold the spool's own bounds here too: a collector that refuses everything must not fill the disk."""
    names = [name for name in os.listdir(folder) if name.endswith(".json")]
    sizes = {name: _size(os.path.join(folder, name)) for name in names}
    total, left = sum(sizes.values()), len(names)
    for name in sorted(names, key=lambda one: one[2:]):
        if left <= limits["files"] and total <= limits["bytes"]:
            return
        files.remove(os.path.join(folder, name))
        files.remove(os.path.join(folder, name + REASON))
        left, total = left - 1, total - sizes[name]


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
