"""Text that fits a width: cleaned, wrapped, in columns. Everything from outside goes through `clean`."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]+")


#: A last column narrower than this is not worth having.
_LEAST = 12


def clean(text: object) -> str:
    """One line without control characters, so that nothing on record can steer a terminal."""
    return re.sub(r" {2,}", " ", _CONTROL.sub(" ", str(text))).strip()


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, width: int) -> str:
    """A text of at most `width` columns; what was cut shows as `~`."""
    if columns_of(text) <= width:
        return text
    kept, used = "", 0
    for char in text:
        used += _columns(char)
        if used > width - 1:
            break
        kept += char
    return kept + "~"


def wrap(text: object, width: int, first: str = "", rest: str | None = None) -> list[str]:
    """Lines of at most `width` columns, the first one begun with `first`, the others with `rest`.

    Words are kept whole where they fit a line of their own; `textwrap` counts characters, not columns.
    """
    rest = " " * columns_of(first) if rest is None else rest
    lines, line, is_empty = [], first, True
    for word in clean(text).split(" "):
        if not is_empty and columns_of(line) + 1 + columns_of(word) <= width:
            line += f" {word}"
            continue
        if not is_empty:
            lines.append(line)
            line = rest
        *full, line = _fill(line, word, width, rest)
        lines += full
        is_empty = False
    return [done.rstrip() for done in (*lines, line)]


def _fill(line: str, word: str, width: int, rest: str) -> list[str]:
    """The lines that one word makes, begun with `line`; more than one if it is wider than a line."""
    lines, used = [], columns_of(line)
    for char in word:
        if used + _columns(char) > width and line != rest:
            lines.append(line)
            line, used = rest, columns_of(rest)
        line += char
        used += _columns(char)
    return [*lines, line]


def pad(text: str, width: int) -> str:
    """A text filled with spaces to `width` columns."""
    return text + " " * max(0, width - columns_of(text))


def table(
    rows: Sequence[Sequence[object]], width: int, *, indent: int = 2, most: Sequence[int] = ()
) -> list[str]:
    """Rows in columns as wide as their longest cell (at most `most`); the last column wraps."""
    cells = [[clean(cell) for cell in row] for row in rows]
    if not cells:
        return []
    widths = [max(columns_of(row[number]) for row in cells) for number in range(len(cells[0]) - 1)]
    widths = [min(wide, limit) for wide, limit in zip(widths, [*most, *[width] * len(widths)], strict=False)]
    lines: list[str] = []
    for row in cells:
        head = "".join(pad(cut(cell, wide), wide + 2) for cell, wide in zip(row, widths, strict=False))
        if indent + columns_of(head) + _LEAST > width:
            lines += wrap("  ".join(row), width, " " * indent, " " * (indent + 2))
        else:
            lines += wrap(row[-1], width, " " * indent + head)
    return lines


def section(title: str, lines: Iterable[str]) -> list[str]:
    """A blank line, a title, and lines below it."""
    return ["", title, *lines]


def when(at: int | None, *, date: bool = True) -> str:
    """A time in UTC to the second; `-` for none."""
    if at is None:
        return "-"
    moment = datetime.fromtimestamp(at / 1000, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S" if date else "%H:%M:%S")


def clock(at: int | None, day: int | None) -> str:
    """A time in UTC, without its date where that is the date of `day`."""
    if at is None or day is None or when(at)[:10] == when(day)[:10]:
        return when(at, date=False)
    return when(at)[5:]


def iso(at: int | None) -> str | None:
    """A time as JSON has it: UTC with milliseconds."""
    if at is None:
        return None
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{at % 1000:03d}Z"


def unix(text: str | None) -> int | None:
    """The inverse of `iso`."""
    return None if text is None else round(datetime.fromisoformat(text).timestamp() * 1000)


def span(milliseconds: int | None) -> str:
    """A duration in words: `under 1 s`, `45 s`, `12 min`, `3 h 05 min`, `2 d 4 h`."""
    if milliseconds is None:
        return "-"
    if milliseconds < 1000:
        return "under 1 s"
    seconds = max(0, round(milliseconds / 1000))
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min"
    if seconds < 172_800:
        return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"
    return f"{seconds // 86_400} d {seconds % 86_400 // 3600} h"


def number(value: float) -> str:
    """A number as short as it can be said exactly enough."""
    return f"{value:g}" if abs(value) < 1e6 else f"{value:.0f}"
