"""How answers are printed: rich tables on a terminal, plain columns when piped, or one JSON object."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from slurm_guard.cli.wrapped import for_stderr
from slurm_guard.slurm.said import brief, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "SCHEMA",
    "WIDTH",
    "brief",
    "count",
    "emit_json",
    "note",
    "on_terminal",
    "plain_table",
    "printable",
    "table",
    "warn",
]

SCHEMA = "1.0"
#: Columns of an answer that no terminal takes.
WIDTH = 80

_COLOURS = {
    "pass": "green",
    "healthy": "green",
    "skip": "dim",
    "unknown": "magenta",
    "warn": "yellow",
    "timeout": "red",
    "fail": "bold red",
}


def on_terminal() -> bool:
    """True if a person reads stdout."""
    return sys.stdout.isatty()


def emit_json(kind: str, content: dict[str, Any]) -> None:
    """Print one JSON object: `schema` and `kind` first. Indented on a terminal, one line when piped."""
    document = {"schema": SCHEMA, "kind": kind, **content}
    print(json.dumps(document, ensure_ascii=False, default=str, indent=2 if on_terminal() else None))


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows under a header. Empty cells become `-`, so that piped columns can be cut by blanks."""
    cells = [[_cell(value) for value in row] for row in rows]
    if on_terminal():
        _rich_table(header, cells)
    else:
        print(plain_table(header, cells))


def plain_table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int = WIDTH) -> str:
    """Left-aligned columns, two blanks apart, header in capitals, no trailing blanks; the last one wraps."""
    from slurm_guard.report.layout import table as columns

    return "\n".join(columns([[title.upper() for title in header], *rows], width, indent=0))


def _rich_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in header:
        drawn.add_column(title, overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(cell, style=_COLOURS.get(cell, "")) for cell in row))
    Console(highlight=False).print(drawn)


def _cell(value: Any) -> str:
    """One value in one line: control characters of foreign texts never reach the terminal."""
    if isinstance(value, (list, tuple)):
        value = ",".join(str(item) for item in value)
    text = "" if value is None else str(value)
    return printable(text) or "-"


def count(number: int, thing: str, things: str = "") -> str:
    """`1 file`, `2 files`: a number and what is counted, with a plural of its own where `s` is not it."""
    return f"{number} {thing if number == 1 else things or f'{thing}s'}"


def note(text: str) -> None:
    """A remark for a person; silent when piped."""
    if on_terminal():
        print(text)


def warn(text: str) -> None:
    """What the reader must know about an answer: on stderr, also when piped."""
    said = ("".join(letter if letter.isprintable() else " " for letter in line) for line in text.splitlines())
    for line in for_stderr("\n".join(said)) if text else ():
        print(line, file=sys.stderr)
