"""The node table of a job report: prolog, during, epilog, and below it what was found and what changed."""

from __future__ import annotations

from typing import Any, NamedTuple

from slurm_guard.report.changes import OTHER, WATCHED
from slurm_guard.report.layout import clean, clock, columns_of, number, pad, unix, wrap
from slurm_guard.slurm import hostlist
from slurm_guard.store.model import CLEAN

_MOST_LINES = 12


class _Row(NamedTuple):
    """One line of the table, with the lines below it."""

    name: str
    cells: tuple[str, str, str]
    details: list[str]


def node_table(run: dict[str, Any], width: int) -> list[str]:
    """One line per node, equal clean ones folded; what was found and what changed below it."""
    clean_nodes: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    rows: list[_Row] = []
    day = unix(run["started"])
    for row in run["node_table"]:
        if is_clean(row):
            clean_nodes.setdefault(_cells(row), []).append(row)
        else:
            rows.append(_Row(row["node"], _timed(row, day), _details(row, day, width)))
    for cells, alike in clean_nodes.items():
        shown = _timed(alike[0], day) if len(alike) == 1 else cells
        rows.append(_Row(fold([row["node"] for row in alike]), shown, []))
    lines = _aligned(rows, width)
    if clean_nodes:
        where = " there" if len(rows) > len(clean_nodes) else ""
        lines += wrap(f"Nothing changed{where}: {', '.join(WATCHED)}.", width, "  ")
    return lines


def _aligned(rows: list[_Row], width: int) -> list[str]:
    wide = [max((columns_of(row.cells[column]) for row in rows), default=0) for column in range(3)]
    room = max(8, width - sum(wide) - 8)
    name_wide = min(room, max((columns_of(row.name) for row in rows), default=0))
    lines: list[str] = []
    for row in rows:
        names = wrap(row.name, name_wide)
        cells = "  ".join(pad(cell, some) for cell, some in zip(row.cells, wide, strict=True)).rstrip()
        first = f"  {pad(names[0], name_wide)}  {cells}"
        if columns_of(first) <= width:
            lines += [first, *(f"  {name}" for name in names[1:])]
        else:
            lines += [*(f"  {name}" for name in names), *wrap(cells, width, "    ")]
        lines += row.details
    return lines


def _cells(row: dict[str, Any]) -> tuple[str, str, str]:
    runs = row["during"]["runs"]
    counted = ", ".join(f"{count} {status}" for status, count in sorted(runs.items()))
    return _hook(row["prolog"]), counted or "no runs", _hook(row["epilog"])


def _timed(row: dict[str, Any], day: int | None) -> tuple[str, str, str]:
    """The cells with the times of prolog and epilog."""
    words = _cells(row)
    times = [f" {clock(unix(row[hook]['at']), day)}" if row[hook] else "" for hook in ("prolog", "epilog")]
    return words[0] + times[0], words[1], words[2] + times[1]


def _hook(hook: dict[str, Any] | None) -> str:
    if hook is None:
        return "none on record"
    word = "REFUSED" if hook["refused"] else hook["status"]
    return word if hook["status"] in CLEAN else word.upper()


def is_clean(row: dict[str, Any]) -> bool:
    """True if a node of the table has nothing to show: all runs there and clean, nothing found or changed."""
    hooks = (row["prolog"], row["epilog"])
    whole = all(hook is not None and hook["status"] in CLEAN for hook in hooks)
    return whole and not row["findings"] and not row["changes"] and set(row["during"]["runs"]) <= set(CLEAN)


def _details(row: dict[str, Any], day: int | None, width: int) -> list[str]:
    lines: list[str] = []
    for one in row["findings"][:_MOST_LINES]:
        told = not one["device"] or one["message"].startswith(one["device"])
        where = "" if told else f" {one['device']}"
        head = f"{clock(unix(one['at']), day)} {one['seen_by']}: {one['fault']}{where}"
        notes = [
            word for word, said in (("echo", one["echo"]), ("not this job's", one["given"] is False)) if said
        ]
        head += f" ({', '.join(notes)})" if notes else ""
        lines += wrap(f"{head}: {one['message']}" if one["message"] else head, width, "    ", "      ")
    if len(row["findings"]) > _MOST_LINES:
        lines.append(f"    and {len(row['findings']) - _MOST_LINES} more findings")
    if row["prolog"] is not None and row["prolog"]["refused"]:
        return lines  # the job never began here
    return lines + _changes(row["changes"], width)


def _changes(changed: list[dict[str, Any]] | None, width: int) -> list[str]:
    if changed is None:
        return ["    changed: not known, no epilog is on record"]
    if not changed:
        return wrap(f"changed: nothing ({', '.join(WATCHED)})", width, "    ", "      ")
    lines: list[str] = []
    for group in dict.fromkeys(one["group"] for one in changed):
        said = [_change(one) for one in changed if one["group"] == group]
        shown = ", ".join(said[:_MOST_LINES]) + (
            f" and {len(said) - _MOST_LINES} more" if said[_MOST_LINES:] else ""
        )
        label = "changed" if group == OTHER else f"changed, {group}"
        lines += wrap(shown, width, f"    {label}: ", "      ")
    return lines


def _change(one: dict[str, Any]) -> str:
    what = f"{one['metric']} {one['device']}".strip()
    if one["by"] is None and one["now"] is None:
        return what
    if one["by"] is not None:
        return f"{what} +{number(one['by'])}"
    return f"{what} {number(one['before'])} -> {number(one['now'])}"


def fold(names: list[str]) -> str:
    """A hostlist for people; names that no hostlist can hold are joined."""
    names = list(dict.fromkeys(clean(name) for name in names))
    try:
        return hostlist.fold(names) if len(names) > 1 else "".join(names) or "-"
    except ValueError:
        return ",".join(names)
