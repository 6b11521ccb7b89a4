"""Expand hostlists, the notation in which Slurm writes many node names (`gpu[001-003,007],login`).

Slurm's order and repeats are kept, the number of names is bounded, and a pattern that would silently mean
nothing is an error. Sets and folding are in `hostlist`, for the admin's commands only.
"""

from __future__ import annotations

import math
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_NAMES = 100_000

_PLAIN = re.compile(r"[A-Za-z0-9_.:+-]*")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")


class HostlistError(ValueError):
    """A hostlist that cannot be read; the message says where and what was expected."""


def expand(text: str, most: int = MOST_NAMES) -> list[str]:
    """The names of a hostlist, in its order, repeats kept; of several brackets the last one runs fastest.

    Raises:
        HostlistError: bad pattern, or more than `most` names.
    """
    found: list[str] = []
    for start, item in _items(text):
        parts = _parts(text, start, item)
        count = math.prod(size for size, _ in parts)
        if len(found) + count > most:
            raise HostlistError(f"{item!r} in {_shown(text)} brings more than {most} names; expected fewer")
        names = [""]
        for _, part in parts:
            alternatives = list(part)
            names = [name + one for name in names for one in alternatives]
        found += names
    return found


def _items(text: str) -> Iterator[tuple[int, str]]:
    """The parts between commas outside brackets, with their positions; white space around them is dropped."""
    start, depth = 0, 0
    for position, char in enumerate(f"{text},"):
        if char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
        if depth not in (0, 1):
            raise _error(text, position, "brackets that are paired and not nested")
        if char == "," and depth == 0:
            yield _item(text, start, position)
            start = position + 1
    if depth:
        raise _error(text, len(text), "a closing bracket")


def _item(text: str, start: int, end: int) -> tuple[int, str]:
    raw = text[start:end]
    item = raw.strip()
    if not item:
        raise _error(text, start, "a node name")
    return start + raw.index(item), item


def _parts(text: str, start: int, item: str) -> list[tuple[int, Iterable[str]]]:
    """The alternatives of an item, piece by piece, with their number: `a[1-2]` is (1, [a]), (2, [1, 2])."""
    parts: list[tuple[int, Iterable[str]]] = []
    position = start
    for piece in re.split(r"(\[[^\]]*\])", item):
        if piece.startswith("["):
            parts.append(_bracket(text, position + 1, piece[1:-1]))
        else:
            match = _PLAIN.match(piece)
            good = match.end() if match else 0
            if good < len(piece):
                raise _error(text, position + good, "letters, digits and . : + _ -")
            parts.append((1, [piece]))
        position += len(piece)
    if item[0] in "-.+:":
        raise _error(text, start, "a letter or a digit first (nothing can be excluded here)")
    return parts


def _bracket(text: str, position: int, inner: str) -> tuple[int, Iterable[str]]:
    """The numbers of a bracket, in its order, overlaps repeated; as wide as the lower end is written."""
    ranges: list[tuple[str, str]] = []
    size = 0
    for part in inner.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise _error(text, position, "a number or a range such as 1-8 or 001-008")
        low, high = match.group(1), match.group(2) or match.group(1)
        if int(low) > int(high) or (len(high) > len(low) and high.startswith("0")):
            raise _error(
                text, position, f"a range that rises, zeros leading at its start, not {part.strip()!r}"
            )
        size += int(high) - int(low) + 1
        ranges.append((low, high))
        position += len(part) + 1
    return size, (name for low, high in ranges for name in _numbers(low, high))


def _numbers(low: str, high: str) -> Iterator[str]:
    return (str(number).zfill(len(low)) for number in range(int(low), int(high) + 1))


def _error(text: str, position: int, expected: str) -> HostlistError:
    found = repr(text[position]) if position < len(text) else "the end"
    return HostlistError(f"hostlist {_shown(text)}, position {position + 1}: {found}; expected {expected}")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
