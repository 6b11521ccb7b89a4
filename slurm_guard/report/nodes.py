"""The overview of all nodes: `build` makes the JSON object, `text` a table of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from slurm_guard import __version__
from slurm_guard.report.job_nodes import fold
from slurm_guard.report.layout import iso, span, table, unix, wrap
from slurm_guard.report.node import state_of
from slurm_guard.report.outlook import Slurm
from slurm_guard.store import fleet
from slurm_guard.store.model import CLEAN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slurm_guard.store import Store
    from slurm_guard.store.model import NodeState

SCHEMA = "1.0"
WIDTH = 80
#: A node without a run for so long is called silent.
SILENT_MS = fleet.SILENCE_MS
#: What a node is counted as, the gravest first.
_KINDS = ("with open faults", "drained without one", "not judged in full", "silent", "clean")


def build(
    store: Store,
    names: Iterable[str] | None = None,
    cluster: str | None = None,
    now: int | None = None,
    slurm: Slurm | None = None,
) -> dict[str, Any]:
    """The state of all nodes on record, or of those named; `now` in milliseconds tells who is silent.

    `slurm` is what Slurm said of its nodes. Names that were asked for and are not on record are listed under
    `not_on_record`, and so are Slurm's own nodes where all were asked for. Names on record that are none of
    Slurm's nodes (taken out of slurm.conf, or a hook that was started by hand) are listed under
    `not_in_slurm` and counted nowhere. Raises StoreError if the store fails.
    """
    asked = slurm if slurm is not None else Slurm(problem="not asked")
    wanted = None if names is None else list(names)
    moment = round(time.time() * 1000) if now is None else now
    states = [one for one in fleet.node_states(store, wanted, cluster) if _is_node(one, asked)]
    foreign = sorted({one.node for one in states if asked.lacks(one.node)})
    rows = [
        {**state_of(one, asked), "silent_ms": None if one.last is None else max(0, moment - one.last.ended)}
        for one in states
        if one.node not in foreign
    ]
    known = {one.node for one in states}
    return {
        "schema": SCHEMA,
        "kind": "nodes",
        "generated": iso(moment),
        "guard_version": __version__,
        "nodes": rows,
        "not_on_record": [n for n in dict.fromkeys(wanted or sorted(asked.nodes)) if n not in known],
        "not_in_slurm": foreign,
        "slurm_problem": asked.problem or None,
        "totals": _totals(rows),
    }


def _is_node(state: NodeState, slurm: Slurm) -> bool:
    """False for a name that only a failed action put on record, and that Slurm does not know."""
    return state.last is not None or state.drained_by is not None or state.node in slurm.nodes


def _totals(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {
        "nodes": len(rows),
        "clean": sum(_is_quiet(row) for row in rows),
        "with_faults": sum(bool(row["open_faults"]) for row in rows),
        "drained": sum(row["drained"] is not None for row in rows),
        "silent": sum(_is_silent(row) for row in rows),
    }


def _is_silent(row: dict[str, Any]) -> bool:
    return row["silent_ms"] is None or row["silent_ms"] > SILENT_MS


def _is_fine(row: dict[str, Any]) -> bool:
    """True for a node that needs no line of its own, silent or not."""
    return row["status"] in CLEAN and not (row["open_faults"] or row["drained"])


def _is_quiet(row: dict[str, Any]) -> bool:
    return _is_fine(row) and not _is_silent(row)


def text(report: dict[str, Any], width: int = WIDTH) -> str:
    """One line per node that needs a look, the others folded; every line fits `width` columns."""
    lines = wrap(_summary(report), width)
    fine = [row for row in report["nodes"] if _is_fine(row)]
    rows = [
        (row["node"], row["status"], _slurm(row), _seen(row), _what(row))
        for row in report["nodes"]
        if not _is_fine(row)
    ]
    if rows:
        titles = ("NODE", "STATUS", "SLURM", "LAST RUN", "OPEN FAULTS")
        lines += ["", *table([titles, *rows], width, most=(24, 8, 16, 14))]
    for title, some in (
        ("clean", [row for row in fine if not _is_silent(row)]),
        (f"silent for {span(SILENT_MS)} or more, clean before", [row for row in fine if _is_silent(row)]),
    ):
        if some:
            lines += [
                "",
                *wrap(fold([row["node"] for row in some]), width, f"  {title} ({len(some)}): ", "    "),
            ]
    for names, title in (
        (report["not_on_record"], "not on record"),
        (report["not_in_slurm"], "on record, but in no partition of Slurm's, so not counted"),
    ):
        if names:
            lines += ["", *wrap(fold(names), width, f"  {title}: ", "    ")]
    return "\n".join(lines) + "\n"


def _summary(report: dict[str, Any]) -> str:
    """How many nodes there are, and of what kind: each node is counted once, by what is gravest."""
    rows = report["nodes"]
    if not rows:
        other = report["not_on_record"] or report["not_in_slurm"]
        return "None of these nodes is on record." if other else "No node is on record yet."
    kinds = [_kind(row) for row in rows]
    counts = [f"{kinds.count(kind)} {kind}" for kind in _KINDS if kind in kinds]
    return f"{len(rows)} node{'' if len(rows) == 1 else 's'}: {', '.join(counts)}"


def _kind(row: dict[str, Any]) -> str:
    """What a node is counted as."""
    fits = (bool(row["open_faults"]), row["drained"] is not None, not _is_fine(row), _is_silent(row), True)
    return _KINDS[fits.index(True)]


def _slurm(row: dict[str, Any]) -> str:
    """Slurm's state, or what the records know of it where it was not asked."""
    if row["slurm"] is not None:
        return str(row["slurm"]["state"])
    return "drained" if row["drained"] else "?"


def _seen(row: dict[str, Any]) -> str:
    if row["last"] is None or unix(row["last"]["at"]) is None:
        return "never"
    return f"{span(row['silent_ms'])} ago"


def _what(row: dict[str, Any]) -> str:
    faults = [f"{one['fault']} {one['device']}".strip() for one in row["open_faults"]]
    if not faults and row["drained"]:
        return f"none; drained: {row['drained']['reason'] or row['drained']['fault']}"
    more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
    return ", ".join(faults[:3]) + more or "-"
