"""Writing files so that a reader never sees half of one; locks between processes."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def write_atomically(path: Path, content: bytes | str, mode: int = 0o644) -> None:
    """Replace `path` by `content` with rename(2), making its folder first.

    Raises OSError on a full disk; then the old file is still there, and nothing else.
    """
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        try:
            write_all(fd, data)
            os.fchmod(fd, mode)
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_all(fd: int, data: bytes) -> None:
    """Write everything, or raise OSError: write(2) alone takes what still fits on a nearly full disk."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def write_script(path: Path, text: str) -> None:
    """Write an executable file."""
    write_atomically(path, text, 0o755)


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock at `path`; with `wait=False` False if somebody else holds it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield _lock(fd, wait=wait)
    finally:
        os.close(fd)


def _lock(fd: int, *, wait: bool) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def tail(path: Path, lines: int = 5) -> str:
    """The last lines of a log, for an error message; empty if there is no such file."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
