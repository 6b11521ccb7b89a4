"""Actions that wait on disk: written before they are tried, removed when they are done or no longer true.

A request is carried out only in the boot it was made in, while it is younger than 30 minutes.
"""

from __future__ import annotations

import contextlib
import os
import time

from slurm_guard.core.outcome import Facts
from slurm_guard.engine import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.paths import Places

#: Design, law 3.
OLDEST_S = 30 * 60.0
_MOST = 64
#: The kinds of requests, and what each must hold to be carried out.
_NEEDED = {
    "drain": ("fault", "device", "scope", "reason"),
    "resume": ("fault", "reason"),
    "tell": ("job_id", "text"),
}
#: What a file name may hold: other letters have up to four bytes each.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def make(kind: str, *, boot_id: str, run_id: str, **fields: Any) -> Facts:
    """A request: `drain` (fault, device, scope, tier, reason), `resume` (reason) or `tell` (job_id, text)."""
    return Facts(kind=kind, boot_id=boot_id, run_id=run_id, created=time.time(), **fields)


def name_of(request: dict[str, Any]) -> str:
    """The request's file name: one per kind and cause, so that a fault seen again does not pile up."""
    cause = f"{request.get('fault', '')}.{request.get('device', '')}"
    if request["kind"] == "tell":
        cause = str(request.get("job_id"))
    safe = "".join(letter if letter in _PLAIN else "_" for letter in cause)
    return f"{request['kind']}.{safe[:120]}.json"


def put(places: Places, request: dict[str, Any]) -> str:
    """Write a request; its path."""
    files.make_folder(places.requests)
    path = os.path.join(places.requests, name_of(request))
    files.write_json(path, request)
    return path


def drop(places: Places, request: dict[str, Any]) -> None:
    """Remove a request that was carried out or is no longer true."""
    files.remove(os.path.join(places.requests, name_of(request)))


def waiting(places: Places, boot_id: str, now: float | None = None) -> list[Facts]:
    """The requests that may still be carried out, oldest first; expired and foreign ones are removed."""
    try:
        names = sorted(name for name in os.listdir(places.requests) if name.endswith(".json"))
    except OSError:
        return []
    at = time.time() if now is None else now
    found = []
    for name in names[:_MOST]:
        path = os.path.join(places.requests, name)
        request = files.read_json(path)
        if request is not None and _valid(request, boot_id, at):
            found.append(request)
        else:
            with contextlib.suppress(OSError):  # on a disk that is read-only now it only stays, unheeded
                files.remove(path)
    return sorted(found, key=lambda request: request["created"])


def _valid(request: dict[str, Any], boot_id: str, now: float) -> bool:
    created, kind = request.get("created"), request.get("kind")
    if not isinstance(created, (int, float)) or not isinstance(kind, str):
        return False
    if any(request.get(name) is None for name in _NEEDED.get(kind, ("",))):
        return False  # of a version to come: nothing here knows what it asks for
    return request.get("boot_id") == boot_id and now - created + 60 >= 0 and now - created < OLDEST_S
