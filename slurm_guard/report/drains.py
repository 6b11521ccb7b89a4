"""Drains, refusals and resumes: `build` makes the JSON object, `text` a list of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from slurm_guard import __version__
from slurm_guard.report.layout import iso, section, table, unix, when, wrap
from slurm_guard.report.node import action_line, action_of
from slurm_guard.store import fleet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slurm_guard.store import Store

SCHEMA = "1.0"
WIDTH = 80
_MOST_LINES = 40


def build(
    store: Store,
    nodes: Iterable[str] | None = None,
    since: int | None = None,
    until: int | None = None,
    cluster: str | None = None,
) -> dict[str, Any]:
    """Which nodes we hold drained, and the history of drains, refusals and resumes in [since, until] (ms).

    `drained` is what the records say; Slurm's own word may differ, since an admin may have resumed a node.
    Raises StoreError if the store fails.
    """
    wanted = None if nodes is None else list(nodes)
    standing = [
        one.drained_by for one in fleet.node_states(store, wanted, cluster) if one.drained_by is not None
    ]
    history = fleet.drains(store, since, until, wanted, cluster)
    return {
        "schema": SCHEMA,
        "kind": "drains",
        "generated": iso(round(time.time() * 1000)),
        "guard_version": __version__,
        "from": iso(since),
        "to": iso(until),
        "drained": [action_of(one) for one in sorted(standing, key=lambda one: one.at)],
        "history": [action_of(one) for one in history],
    }


def text(report: dict[str, Any], width: int = WIDTH) -> str:
    """The page of the list; every line fits `width` columns, times are UTC."""
    rows = [
        (one["node"], when(unix(one["at"])), one["user"] or one["by"], one["reason"] or one["fault"])
        for one in report["drained"]
    ]
    lines = [f"{len(rows)} drained by slurm_guard" if rows else "No node is drained by slurm_guard."]
    if rows:
        lines += table([("NODE", "SINCE (UTC)", "BY", "REASON"), *rows], width, most=(24, 19, 12))
    history: list[str] = []
    for one in report["history"][:_MOST_LINES]:
        history += wrap(action_line(one, with_node=True), width, "  ", "    ")
    more = len(report["history"]) - _MOST_LINES
    if more > 0:
        history.append(f"  and {more} more")
    lines += section("HISTORY, newest first", history or ["  None on record."])
    return "\n".join(lines) + "\n"
