"""Drains, refusals and resumes of a time: `build` makes the JSON object, `text` the page."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from slurm_guard import __version__
from slurm_guard.report.actions import events, sentence
from slurm_guard.report.layout import iso, unix, when, wrap
from slurm_guard.store import fleet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slurm_guard.store import Store

SCHEMA = "1.0"
WIDTH = 80
_MOST_LINES = 100


def build(
    store: Store,
    nodes: Iterable[str] | None = None,
    since: int | None = None,
    until: int | None = None,
    cluster: str | None = None,
) -> dict[str, Any]:
    """What was done to nodes in [since, until] (ms), newest first. Raises StoreError if the store fails."""
    wanted = None if nodes is None else list(nodes)
    found = events(fleet.drains(store, since, until, wanted, cluster))
    return {
        "schema": SCHEMA,
        "kind": "drain_history",
        "generated": iso(round(time.time() * 1000)),
        "guard_version": __version__,
        "from": iso(since),
        "to": iso(until),
        "history": [one.as_dict() for one in reversed(found)],
    }


def text(report: dict[str, Any], width: int = WIDTH) -> str:
    """The page, newest first; every line fits `width` columns. Empty if nothing was done."""
    lines: list[str] = []
    for one in report["history"][:_MOST_LINES]:
        lines += wrap(f"{when(unix(one['at']))} {sentence(one)}", width, "", "    ")
    more = len(report["history"]) - _MOST_LINES
    if more > 0:
        lines += wrap(f"and {more} more: choose a shorter time with -S and -E, or --json", width)
    return "\n".join(["TIME (UTC)          WHAT WAS DONE", *lines]) + "\n" if lines else ""
