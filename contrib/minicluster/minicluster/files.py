"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_atomically(path: Path, content: bytes | str, mode: int = 0o644) -> None:
    """Replace `path` by `content` with rename(2), making its folder first."""
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        os.write(fd, data)
        os.fchmod(fd, mode)
    finally:
        os.close(fd)
    os.rename(temporary, path)


def write_script(path: Path, text: str) -> None:
    """Write an executable file."""
    write_atomically(path, text, 0o755)


def tail(path: Path, lines: int = 5) -> str:
    """The last lines of a log, for an error message; empty if there is no such file."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
