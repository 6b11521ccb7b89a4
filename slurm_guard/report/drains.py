"""Which nodes are out because of the guard, and which are in service though a fault calls for a drain:
`build` makes the JSON object, `text` the page.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from slurm_guard import __version__
from slurm_guard.core import reason as reasons
from slurm_guard.core.policy import DRAIN_TIERS
from slurm_guard.report.actions import sentence
from slurm_guard.report.layout import clean, iso, span, unix, when, wrap
from slurm_guard.report.open_faults import Trouble, fault_lines
from slurm_guard.report.outlook import look
from slurm_guard.store import fleet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slurm_guard.core.plan import Plan
    from slurm_guard.report.outlook import Slurm
    from slurm_guard.store import Store
    from slurm_guard.store.model import NodeState

SCHEMA = "1.0"
WIDTH = 80


def build(
    store: Store, plan: Plan, slurm: Slurm, names: Iterable[str] | None = None, now: int | None = None
) -> dict[str, Any]:
    """What is drained by us, and what is not although it should be; of all nodes or those named.

    Slurm's own word counts where it answered, else the records'. `now` is in milliseconds. Raises StoreError
    if the store fails.
    """
    wanted = None if names is None else list(names)
    known = {state.node: state for state in _latest(fleet.node_states(store, wanted))}
    drained, open_ones = [], []
    for name in sorted({*known, *slurm.nodes}) if wanted is None else wanted:
        trouble = Trouble(store, known[name], slurm) if _is_worth_a_look(known.get(name)) else None
        row = _drained(plan, slurm, name, trouble)
        if row is not None:
            drained.append(row)
        elif trouble is not None and not slurm.is_out(name) and not slurm.lacks(name):
            open_ones += _not_drained(slurm, trouble)
    return {
        "schema": SCHEMA,
        "kind": "drains",
        "generated": iso(round(time.time() * 1000) if now is None else now),
        "guard_version": __version__,
        "drains": drained,
        "not_drained": open_ones,
        "slurm_problem": slurm.problem or None,
    }


def _latest(states: Iterable[NodeState]) -> list[NodeState]:
    """One state per name: of a node that is on record under two clusters, the one seen last comes last."""
    return sorted(states, key=lambda one: one.last.started if one.last is not None else 0)


def _is_worth_a_look(state: NodeState | None) -> bool:
    return state is not None and bool(state.open_faults or state.drained_by)


def _drained(plan: Plan, slurm: Slurm, name: str, trouble: Trouble | None) -> dict[str, Any] | None:
    """A node that is out because of the guard; None for any other."""
    told = slurm.nodes.get(name)
    if slurm.reachable and told is None:
        return None
    one = look(plan, name, told, trouble.state if trouble is not None else None)
    if one is None:
        return None
    how = trouble.drain() if trouble is not None else None
    return {
        "node": name,
        "state": one.state or None,
        "reason": one.reason,
        "since": iso(how.at if told is None and how is not None else one.since),
        "ours": one.ours,
        "guard": sentence(how.as_dict()) if how is not None else None,
        "guard_at": iso(how.at) if how is not None else None,
        "open_faults": _grave(trouble),
        "next": one.next,
    }


def _not_drained(slurm: Slurm, trouble: Trouble) -> list[dict[str, Any]]:
    name, grave = trouble.state.node, _grave(trouble)
    state = str(slurm.nodes[name]) if name in slurm.nodes else None
    return [{"node": name, "state": state, "open_faults": grave}] if grave else []


def _grave(trouble: Trouble | None) -> list[dict[str, Any]]:
    """The open faults that call for a drain, but for those whose check the site switched off."""
    found = trouble.open_faults() if trouble is not None else []
    return [one for one in found if one["tier"] in DRAIN_TIERS and not one["switched_off"]]


def text(report: dict[str, Any], width: int = WIDTH) -> str:
    """The page; every line fits `width` columns. Empty if there is nothing to say."""
    now = unix(report["generated"]) or 0
    lines: list[str] = []
    for title, rows in (
        ("DRAINED BY SLURM_GUARD", [row for row in report["drains"] if is_ours(row)]),
        ("DRAINED WITH A REASON OF SOMEBODY'S OWN", [row for row in report["drains"] if not is_ours(row)]),
    ):
        lines += _title(title, rows, lines)
        for row in rows:
            lines += _row(row, now, width)
    lines += _title("NOT DRAINED, THOUGH A FAULT CALLS FOR IT", report["not_drained"], lines)
    for row in report["not_drained"]:
        lines += wrap(f"{row['node']}  {row['state'] or '?'}", width, "  ", "      ")
        for one in row["open_faults"]:
            lines += fault_lines(one, now, width, "      ")
    return "\n".join(lines) + "\n" if lines else ""


def is_ours(row: dict[str, Any]) -> bool:
    """True for a drain that is the guard's own, as far as that can be told."""
    if row["ours"] is None:
        return reasons.parse(row["reason"]) is not None
    return bool(row["ours"])


def _title(what: str, rows: list[Any], above: list[str]) -> list[str]:
    """The title of a part with its count; the first one says whose times these are."""
    if not rows:
        return []
    title = f"{what}: {len(rows)} node" + ("s" if len(rows) != 1 else "")
    return ["", title] if above else [f"{title} (times are UTC)"]


def _row(row: dict[str, Any], now: int, width: int) -> list[str]:
    since = unix(row["since"])
    head = f"{row['node']}  {row['state'] or '?'}  {clean(row['reason'])}"
    lines = wrap(head, width, "  ", "      ")
    lines += wrap(f"since {when(since)} ({span(None if since is None else now - since)})", width, "      ")
    if row["guard"]:
        at = when(unix(row["guard_at"]), date=False)
        lines += wrap(f"guard: {at} {row['guard']}", width, "      ", "        ")
    lines += wrap(f"next: {row['next']}", width, "      ", "        ")
    for one in row["open_faults"]:
        lines += fault_lines(one, now, width, "      ", guard=False)
    return lines
