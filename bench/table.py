"""One row per figure: what, its budget, what a peer or the design measured, what was measured here."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict, dataclass
from itertools import zip_longest


@dataclass(frozen=True)
class Row:
    """One figure. `holds` is None where nothing is to compare; `bare` is the bare interpreter's figure."""

    what: str
    budget: str
    peer: str
    measured: str
    bare: str = "-"
    holds: bool | None = None
    note: str = ""


HEADER = ("what", "budget", "design, peer", "measured here", "bare python", "")
#: Together with two spaces between them, 100 columns.
WIDTHS = (25, 13, 15, 21, 10, 6)
COLUMNS = sum(WIDTHS) + 2 * (len(WIDTHS) - 1)


def cells(row: Row) -> tuple[str, ...]:
    """A row as it is printed."""
    verdict = {True: "holds", False: "MISSES", None: ""}[row.holds]
    return (row.what, row.budget, row.peer, row.measured, row.bare, verdict)


def lines(row: tuple[str, ...]) -> list[str]:
    """A row's lines: a long cell goes on below itself."""
    wrapped = [textwrap.wrap(cell, width) or [""] for cell, width in zip(row, WIDTHS, strict=True)]
    return [
        "  ".join(part.ljust(width) for part, width in zip(parts, WIDTHS, strict=True)).rstrip()
        for parts in zip_longest(*wrapped, fillvalue="")
    ]


def verdict(rows: list[Row]) -> str:
    """Which budgets were missed, in one sentence."""
    compared = [row for row in rows if row.holds is not None]
    missed = [row.what for row in compared if not row.holds]
    skipped = [row.what for row in rows if row.measured == "not measured"]
    said = f"{len(compared) - len(missed)} of {len(compared)} budgets hold"
    said += f"; missed: {'; '.join(missed)}" if missed else ""
    return said + (f"; not measured: {', '.join(skipped)}" if skipped else "")


def text(rows: list[Row]) -> str:
    """A table of at most 100 columns, what it comes to, and the rows' notes."""
    table = [line for row in rows for line in lines(cells(row))]
    ruled = ["  ".join("-" * width for width in WIDTHS), *table]
    below = [line for entry in (verdict(rows), *notes(rows)) for line in wrap(entry)]
    return "\n".join([*lines(HEADER), *ruled, "", *below]).rstrip() + "\n"


def notes(rows: list[Row]) -> list[str]:
    """What is to be said about rows, the same thing once."""
    about: dict[str, list[str]] = {}
    for row in rows:
        if row.note:
            about.setdefault(row.note, []).append(row.what)
    return [f"* {'; '.join(names)}: {note}" for note, names in about.items()]


def wrap(entry: str) -> list[str]:
    """A sentence below the table, indented where it goes on."""
    return textwrap.wrap(entry, COLUMNS, subsequent_indent="  ", break_on_hyphens=False)


def as_json(rows: list[Row]) -> str:
    """The same as JSON, one object per row."""
    return json.dumps([asdict(row) for row in rows], indent=1)
