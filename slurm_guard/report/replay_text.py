"""`sguard policy replay` as text of a given width: totals beside what was done, then the differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slurm_guard.report.layout import unix, when, wrap
from slurm_guard.slurm.hostlist import fold

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTH = 80
#: Lines of one kind before the rest is only counted; all of them are in JSON.
_MOST = 50
#: Holds that begin within this of each other are told together, in ms.
_TOGETHER_MS = 3_600_000
_LIMITS = {
    "nodes": "cluster's budget",
    "partition": "partition's budget",
    "per_hour": "budget of an hour",
    "shared": "shared cause",
    "incident": "one incident",
    "job": "nodes of one job",
    "user": "nodes of one user",
    "observe": "mode observe",
    "stays": "stays out",
}


def text(found: dict[str, Any], width: int = WIDTH) -> str:
    """The page; every line fits `width` columns. Times are UTC."""
    lines = [*_head(found, width), "", *_totals(found)]
    for title, name, told in _SECTIONS:
        lines += _section(title, found[name], told, width)
    lines += _held(found["held"], width)
    if not (found["only_would"] or found["only_did"] or found["otherwise"]):
        lines += ["", "No difference to what was done."]
    lines += ["", "NOT REPLAYED"]
    for one in found["not_replayed"]:
        lines += wrap(one, width, "  ", "    ")
    return "\n".join(lines) + "\n"


def _head(found: dict[str, Any], width: int) -> list[str]:
    plan = f"plan {found['plan'][:8]}" if found["plan"] else "the built-in defaults"
    how = ", what is observed taken as enforced" if found["enforce"] else ""
    nodes = f"{found['nodes_on_record']} of {found['nodes']} nodes on record"
    span = f"{_at(found['from'])} to {_at(found['to'])} UTC"
    return wrap(f"replay of {plan}{how}: {span}, {nodes}", width, rest="  ")


def _totals(found: dict[str, Any]) -> list[str]:
    """Two columns: what would have been, and what was; then what was held, by limit."""
    would, did = found["would"], found["did"]
    rows = [("", "would", "did")]
    for name, title in (("drains", "drains"), ("refusals", "  refusals"), ("returns", "returns")):
        rows.append((title, str(would[name]), str(did[name])))
    rows.append(("out at once, at most", str(would["most_out"]), str(did["most_out"])))
    rows.append(("  first at", _at(would["most_out_at"]), _at(did["most_out_at"])))
    rows.append(("drains of both", str(found["same"]), ""))
    rows.append(("jobs not started", str(found["jobs_not_started"]), ""))
    rows.append(("held", str(len(found["held"])), ""))
    rows += [(f"  {_LIMITS.get(limit, limit)}", str(count), "") for limit, count in found["held_by"].items()]
    return [f"{title:<22}  {one:<19}  {other}".rstrip() for title, one, other in rows]


def _at(text_: str | None) -> str:
    return when(unix(text_)) if text_ else "-"


def _section(
    title: str, rows: list[dict[str, Any]], told: Callable[[dict[str, Any]], list[str]], width: int
) -> list[str]:
    if not rows:
        return []
    lines = ["", f"{title}: {len(rows)}"]
    for one in rows[:_MOST]:
        head, *more = told(one)
        lines += wrap(head, width, "  ", "      ")
        for text_ in more:
            lines += wrap(text_, width, "      ", "        ")
    left = len(rows) - _MOST
    return lines + ([f"  and {left} more: see --json, or choose with -S, -E and -w"] if left > 0 else [])


def _cause(one: dict[str, Any]) -> str:
    return f"{one['fault']} {one['device']}".strip()


def _would(one: dict[str, Any]) -> list[str]:
    rules = f" ({', '.join(one['rules'])})" if one["rules"] else ""
    does = "refuse and drain" if one["action"] == "refuse" else "drain"
    lines = [f"{_at(one['at'])} {one['node']}: {does} for {_cause(one)}", f"why: {one['why']}{rules}"]
    lines += [f"back: {_at(one['until'])}"] if one["until"] else []
    return lines + ([f"then: {one['then']}"] if one["then"] else [])


def _did(one: dict[str, Any]) -> list[str]:
    return [f"{_at(one['at'])} {one['node']}: was drained for {_cause(one)}", f"now: {one['now']}"]


def _otherwise(one: dict[str, Any]) -> list[str]:
    would, did = one["would"], one["did"]
    return [
        f"{_at(would['at'])} {one['node']}: {_cause(would)}; was {_cause(did)}, {_at(did['at'])}",
    ]


_SECTIONS: tuple[tuple[str, str, Callable[[dict[str, Any]], list[str]]], ...] = (
    ("WOULD DRAIN, AND DID NOT", "only_would", _would),
    ("DID DRAIN, AND WOULD NOT", "only_did", _did),
    ("AT ANOTHER TIME, OR FOR ANOTHER FAULT", "otherwise", _otherwise),
)


def _held(rows: list[dict[str, Any]], width: int) -> list[str]:
    """Holds of one cause by one limit on many nodes are one line."""
    groups: list[list[dict[str, Any]]] = []
    last: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for one in rows:
        key = (one["limit"], one["fault"], one["device"])
        group = last.get(key)
        if group is None or (unix(one["at"]) or 0) - (unix(group[0]["at"]) or 0) > _TOGETHER_MS:
            last[key] = group = []
            groups.append(group)
        group.append(one)
    return _section("HELD, BY CAUSE", [{"group": one} for one in groups], _told_held, width)


def _told_held(one: dict[str, Any]) -> list[str]:
    group = one["group"]
    first, names = group[0], sorted({hold["node"] for hold in group})
    until = max(hold["until"] for hold in group)
    again = f", until {_at(until)}" if any(hold["times"] > 1 for hold in group) else ""
    return [f"{_at(first['at'])} {_folded(names)}: {_cause(first)}{again}", f"why: {first['why']}"]


def _folded(names: list[str]) -> str:
    try:
        return fold(names)
    except ValueError:  # a name on record that Slurm would not take
        return f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else names[0]
