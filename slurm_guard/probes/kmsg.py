"""The kernel's log, record by record, from /dev/kmsg (or a regular file with the same bytes).

Format, see Documentation/ABI/testing/dev-kmsg: `priority,sequence,microseconds,flags[,…];text`, then lines
that start with a space (a device's dictionary). Bytes outside printable ASCII come as `\\xNN`.
"""

from __future__ import annotations

import errno
import os
import re
import stat

from slurm_guard.core.errors import ProbeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from slurm_guard.core.outcome import Facts
    from slurm_guard.core.paths import Places

GROUP = "text"

MOST_EVENTS = 10_000
MOST_TEXT_BYTES = 2 << 20
LONGEST_TEXT = 1000
#: Bounds the reading itself: a log that grows faster than it is read must not keep us here.
MOST_RECORDS = 500_000
LARGEST_FILE = 64 << 20
#: Linux prints at most 8 KiB per record and answers EINVAL to a smaller buffer.
_BUFFER = 16 << 10
#: A record's number is facility * 8 + priority; the kernel's facility is 0, which no program can claim.
_KERNEL = 8

_HEAD = re.compile(rb"(\d{1,9}),(\d{1,19}),(\d{1,19})(?:,[^;]*)?;")
_ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})")


class Record:
    """One record of the log: sequence number, monotonic seconds, priority (0 to 7), text."""

    __slots__ = ("priority", "seq", "text", "time_s")

    def __init__(self, seq: int, time_s: float, priority: int, text: str) -> None:
        self.seq = seq
        self.time_s = time_s
        self.priority = priority
        self.text = text

    def as_dict(self) -> dict[str, Any]:
        """The record as a fact."""
        return {"seq": self.seq, "time_s": self.time_s, "priority": self.priority, "text": self.text}


def read(places: Places, request: Facts) -> dict[str, Any]:
    """The kernel's own records with a sequence number above `request.kmsg_since`.

    What programs write to /dev/kmsg (facility other than 0) counts in the sequence only: their volume must
    not starve the look, and nobody may forge a fault with `echo`.

    Returns `first` and `last` (sequence numbers, None for an empty log), `gap` (records between the cursor
    and the newest one were lost or unreadable), `events` and `overflow`. With `kmsg_since` None (the first
    run ever) older lines are history: no events, only the numbers. On `overflow`, `last` is the last
    record that was kept, so that the next run goes on from there and nothing is lost.

    Raises ProbeError if there is no kernel log or what is there is none.
    """
    path = places.below("dev/kmsg")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise ProbeError(f"the kernel log {path} cannot be opened: {error.strerror}") from error
    try:
        lines = _of_device(descriptor) if stat.S_ISCHR(os.fstat(descriptor).st_mode) else _of_file(descriptor)
        collector = _Collector(request.get("kmsg_since"))
        for line in lines:
            if not collector.take(line):
                break
        return collector.facts(path)
    except OSError as error:
        raise ProbeError(f"the kernel log {path} cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)


def parse(line: bytes) -> Record | None:
    """One record from its first line, or None if it is not in the log's format."""
    head = _HEAD.match(line)
    if head is None:
        return None
    return Record(int(head[2]), int(head[3]) / 1e6, int(head[1]) & 7, unescape(line[head.end() :]))


def unescape(text: bytes) -> str:
    """The text with its `\\xNN` escapes turned back into bytes, read as UTF-8, bounded in length."""
    if b"\\x" in text:
        text = _ESCAPE.sub(lambda match: bytes((int(match[1], 16),)), text)
    return text[: 4 * LONGEST_TEXT].decode("utf-8", "replace")[:LONGEST_TEXT]


def _of_device(descriptor: int) -> Iterator[bytes]:
    """The first line of each record; the device gives one record per read."""
    for _ in range(MOST_RECORDS):
        try:
            record = os.read(descriptor, _BUFFER)
        except BlockingIOError:
            return
        except OSError as error:
            # The record we stood at was overwritten; the next read starts at the oldest one. The jump in
            # the sequence tells the gap.
            if error.errno == errno.EPIPE:
                continue
            raise
        if not record:
            return
        yield record.partition(b"\n")[0]


def _of_file(descriptor: int) -> Iterator[bytes]:
    """The first line of each record of a regular file (a pipe gives what it holds); the last 64 MiB."""
    size = os.fstat(descriptor).st_size
    torn = size > LARGEST_FILE
    if torn:
        os.lseek(descriptor, size - LARGEST_FILE, os.SEEK_SET)
    lines = _whole(descriptor).split(b"\n")
    for line in lines[1:] if torn else lines:
        if line and not line.startswith(b" "):
            yield line


def _whole(descriptor: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while size < LARGEST_FILE:
        try:
            part = os.read(descriptor, 1 << 20)
        except BlockingIOError:
            break
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)


class _Collector:
    """Sorts the lines into old ones, events and broken ones."""

    def __init__(self, since: int | None) -> None:
        self.first: int | None = None
        self.last: int | None = None
        self.events: list[dict[str, Any]] = []
        self.gap = self.overflow = False
        self.broken = 0
        self._since = self._cursor = since
        self._bytes = 0

    def take(self, line: bytes) -> bool:
        """Take one line; False once there is no room for more events."""
        head = _HEAD.match(line)
        if head is None:
            self.broken += 1
            return True
        seq = int(head[2])
        is_kernels = int(head[1]) < _KERNEL
        if self._cursor is not None and seq > self._cursor and not self._keep(seq, line, is_kernels):
            return False
        self.first = seq if self.first is None else self.first
        self.last = seq if self.last is None else max(self.last, seq)
        return True

    def _keep(self, seq: int, line: bytes, is_kernels: bool) -> bool:
        if len(self.events) >= MOST_EVENTS or self._bytes >= MOST_TEXT_BYTES:
            self.overflow, self.last = True, self._cursor
            return False
        record = parse(line) if is_kernels else None
        if record is not None:
            self.events.append(record.as_dict())
            self._bytes += len(record.text)
        self.gap = self.gap or seq - 1 != self._cursor
        self._cursor = seq
        return True

    def facts(self, path: str) -> dict[str, Any]:
        """The facts, once all lines were taken."""
        if self.first is None and self.broken:
            raise ProbeError(f"{path} does not hold a kernel log: none of {self.broken} lines is a record")
        if self._since is not None:
            # An empty log, or one that ends before the cursor, cannot be the one that the cursor is of.
            shorter = self.last is None or self.last < self._since
            self.gap = self.gap or self.broken > 0 or shorter
        names = ("first", "last", "gap", "events", "overflow")
        return {name: getattr(self, name) for name in names}
