"""In which line of a TOML file a key stands, as far as that can be told by looking at its lines.

tomllib keeps no positions. This reads headers and the start of `key =` lines; a key inside an inline table
is found by the line of its table. A wrong guess costs a line number in a message, nothing else.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_guard.config.problems import Path

_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"\\]*"|'[^']*')"""
_DOTTED = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]\]?")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=")
_PART = re.compile(_NAME)


def find_line(text: str, path: Path) -> int | None:
    """The line (from 1) of the longest part of `path` that stands in the text; None if nothing does."""
    places = _places(text)
    for length in range(len(path), 0, -1):
        line = places.get(path[:length])
        if line is not None:
            return line
    return None


def _places(text: str) -> dict[Path, int]:
    """Every header and key of the text with its line; the first one counts."""
    places: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.match(line)
        key = None if header else _KEY.match(line)
        if header:
            table = _enter(_split(header[2]), header[1] == "[[", counts)
            places.setdefault(table, number)
            places.setdefault(_without_position(table), number)
        elif key:
            places.setdefault((*table, *_split(key[1])), number)
    return places


def _enter(names: list[str], array: bool, counts: dict[Path, int]) -> Path:
    """The path of a header's table: names of arrays are followed by the position of their last table."""
    path: Path = ()
    for position, name in enumerate(names):
        path = (*path, name)
        if array and position == len(names) - 1:
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path


def _without_position(table: Path) -> Path:
    return table[:-1] if isinstance(table[-1], int) else table


def _split(dotted: str) -> list[str]:
    return [part.strip("\"'") for part in _PART.findall(dotted)]
