"""One row per figure: what, its budget, what a peer or the design measured, what was measured here."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


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


HEADER = ("what", "budget", "design, peer", "measured here", "bare interpreter", "")


def cells(row: Row) -> tuple[str, ...]:
    """A row as it is printed."""
    verdict = {True: "holds", False: "MISSES", None: ""}[row.holds]
    return (row.what, row.budget, row.peer, row.measured, row.bare, verdict)


def text(rows: list[Row]) -> str:
    """An aligned table with the rows' notes below it."""
    lines = [HEADER, *(cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
    printed = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    printed.insert(1, "  ".join("-" * width for width in widths))
    notes = [f"{row.what}: {row.note}" for row in rows if row.note]
    return "\n".join([*printed, "", *notes]).rstrip() + "\n"


def as_json(rows: list[Row]) -> str:
    """The same as JSON, one object per row."""
    return json.dumps([asdict(row) for row in rows], indent=1)
