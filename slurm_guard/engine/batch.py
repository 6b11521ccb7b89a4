"""A batch of the spool's records as one request's body: JSON lines, oldest first, of bounded size."""

from __future__ import annotations

import json
import os

from slurm_guard.engine import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MOST_LINES = 1000
MOST_BYTES = 4 << 20


class Batch:
    """Records that go together: `lines` as they lie in the spool, `paths` by run id, `ids` by line."""

    __slots__ = ("ids", "lines", "paths", "size")

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.ids: list[str] = []
        self.paths: dict[str, str] = {}
        self.size = 0

    @property
    def body(self) -> bytes:
        """The request's body."""
        return b"\n".join(self.lines) + b"\n"

    def add(self, run_id: str, path: str, content: bytes) -> None:
        """One more record."""
        self.lines.append(content)
        self.ids.append(run_id)
        self.paths[run_id] = path
        self.size += len(content) + 1

    def take_refused(self, refused: list[Any]) -> list[tuple[str, str]]:
        """(path, why) of the records that the other side refused, which leave `paths`.

        `refused` is its list of objects with `run_id`, or `line` (from 1) where it could not tell that.
        """
        found = []
        for one in refused:
            if not isinstance(one, dict):
                continue
            run_id, line, why = one.get("run_id"), one.get("line"), one.get("why")
            if not isinstance(run_id, str) and type(line) is int and 1 <= line <= len(self.ids):
                run_id = self.ids[line - 1]
            path = self.paths.pop(run_id, None) if isinstance(run_id, str) else None
            if path is not None:
                found.append((path, why if isinstance(why, str) and why else "refused without a reason"))
        return found


def take(paths: list[str], most_lines: int, aside: Callable[[str, str], None]) -> Batch:
    """Take the next batch from the front of `paths`, which it shortens; empty when there is nothing left.

    Files that are gone are left out; those that are no record are handed to `aside(path, why)`.
    """
    batch = Batch()
    while paths and len(batch.lines) < most_lines:
        path = paths[0]
        content, why = _read(path)
        if content is not None and batch.size + len(content) + 1 > MOST_BYTES:
            return batch
        del paths[0]
        if content is None:
            if why:
                aside(path, why)
            continue
        run_id = _run_id(path, content)
        if not run_id:
            aside(path, "torn, or not a run record")
        elif run_id not in batch.paths:
            batch.add(run_id, path, content)
    return batch


def _read(path: str) -> tuple[bytes | None, str]:
    """A file's content, or why it cannot be one line of a body; neither where it is gone."""
    try:
        descriptor = files.regular_file(path, os.O_RDONLY | os.O_NOFOLLOW)
        with open(descriptor, "rb") as file:
            content = file.read(MOST_BYTES)
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        return None, f"cannot be read as a regular file: {error.strerror or error}"
    if len(content) >= MOST_BYTES:
        return None, f"larger than a request may be ({MOST_BYTES} bytes)"
    return (None, "not one line of text") if b"\n" in content else (content, "")


def _run_id(path: str, content: bytes) -> str:
    """The record's run id, from the file's name if the content says the same (parsing would cost more)."""
    named = os.path.basename(path)[:-5].rpartition("-")[2]
    if (
        len(named) == 32
        and named.isascii()
        and f'"run_id":"{named}"'.encode() in content[:200]
        and content.endswith(b"}")
    ):
        return named
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return ""
    run_id = found.get("run_id") if isinstance(found, dict) else None
    return run_id if isinstance(run_id, str) else ""
