"""The page of one node: a JSON object from store and Slurm, and the text of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from slurm_guard.cli import outlook
from slurm_guard.cli.output import plain_table, printable
from slurm_guard.report.layout import iso, unix, when, wrap
from slurm_guard.store.fleet import drains, silences
from slurm_guard.store.jobs import jobs_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurm_guard.core.plan import Plan
    from slurm_guard.slurm.gateway import NodeState as SlurmNode
    from slurm_guard.store import Store
    from slurm_guard.store.model import Allocation, FindingRow, NodeState

WIDTH = 80
_MOST_JOBS, _MOST_GAPS = 20, 10


def build(
    store: Store,
    plan: Plan,
    name: str,
    known: NodeState | None,
    told: SlurmNode | None,
    window: tuple[int, int],
) -> dict[str, Any]:
    """The page as data; `window` is (from, to) in milliseconds, `known` and `told` are None where absent."""
    cluster = known.cluster if known is not None else None
    drained = outlook.look(plan, name, told, known)
    jobs = jobs_on(store, name, *window, cluster) if known is not None else []
    gaps = silences(store, name, *window, cluster) if known is not None else []
    return {
        "node": name,
        "cluster": cluster or "",
        "status": known.status if known is not None and known.last is not None else "none",
        "state": str(told) if told is not None else "",
        "reason": told.reason if told is not None else "",
        "drained": None if drained is None else {**asdict(drained), "since": iso(drained.since)},
        "last_run": _last_run(known),
        "open_faults": [_fault(one) for one in known.open_faults] if known is not None else [],
        "from": iso(window[0]),
        "to": iso(window[1]),
        "jobs": [_job(one) for one in jobs],
        "actions": [
            {"at": iso(one.at), "action": one.action, "outcome": one.outcome, "by": one.user or one.by,
             "reason": one.reason, "why": one.why}
            for one in drains(store, *window, [name])
        ],
        "gaps": [{"from": iso(gap.start), "to": iso(gap.end), "why": gap.why} for gap in gaps],
    }  # fmt: skip


def _last_run(known: NodeState | None) -> dict[str, Any] | None:
    last = known.last if known is not None else None
    if last is None:
        return None
    names = (
        "run_id",
        "hook",
        "status",
        "boot_id",
        "serial",
        "guard_version",
        "plan_hash",
        "plan_state",
        "mode",
    )
    return {"at": iso(last.started), **{name: getattr(last, name) for name in names}}


def _fault(one: FindingRow) -> dict[str, Any]:
    names = ("fault", "device", "device_id", "status", "tier", "blame", "message", "remedy", "event")
    return {"at": iso(one.at), **{name: getattr(one, name) for name in names}}


def _job(one: Allocation) -> dict[str, Any]:
    return {
        "job_id": one.job_id,
        "restart": one.restart,
        "user": one.user,
        "gpus": one.gpus,
        "opened": iso(one.opened) if one.opened_sure else None,
        "closed": iso(one.closed),
        "exit_code": one.exit_code,
    }


def text(page: dict[str, Any]) -> str:
    """The page as text, times in UTC."""
    lines = [*_head(page), *_faults(page["open_faults"])]
    jobs = [
        (
            one["job_id"],
            one["user"],
            one["gpus"],
            _short(one["opened"]),
            _short(one["closed"]),
            one["exit_code"],
        )
        for one in page["jobs"][:_MOST_JOBS]
    ]
    lines += _table("Jobs", ("job", "user", "gpus", "from", "to", "exit"), jobs, len(page["jobs"]))
    actions = [
        (_short(one["at"]), one["action"], one["outcome"], one["by"], one["reason"], one["why"])
        for one in page["actions"]
    ]
    lines += _table("Actions", ("at", "action", "outcome", "by", "reason", "why"), actions, len(actions))
    gaps = [(_short(one["from"]), _short(one["to"]), one["why"]) for one in page["gaps"][:_MOST_GAPS]]
    lines += _table("Not seen", ("from", "to", "why"), gaps, len(page["gaps"]))
    return "\n".join(lines)


def _head(page: dict[str, Any]) -> list[str]:
    state = f", Slurm says {page['state']}" if page["state"] else ""
    lines = [f"Node {printable(page['node'])}: {page['status']}{state}"]
    if page["reason"]:
        lines += wrap(f"reason {page['reason']}", WIDTH, "  ")
    last = page["last_run"]
    if last:
        how = f"{last['hook']}, plan {last['plan_state']}, mode {last['mode']}"
        lines.append(f"  last run {_short(last['at'])} UTC, {how}")
    else:
        lines.append("  no run is on record")
    drained = page["drained"]
    if drained:
        lines += wrap(f"drained since {_short(drained['since'])}: {drained['next']}", WIDTH, "  ")
    return lines


def _faults(found: list[dict[str, Any]]) -> list[str]:
    lines = ["", "Open faults"] if found else ["  no open fault"]
    for one in found:
        name = f"{one['fault']} {one['device']}".strip()
        lines += wrap(
            f"{name} ({one['tier'] or 'no tier'}, {_short(one['at'])}): {one['message']}", WIDTH, "  "
        )
        if one["remedy"]:
            lines += wrap(f"remedy: {one['remedy']}", WIDTH, "    ")
    return lines


def _table(title: str, header: Sequence[str], rows: list[tuple[Any, ...]], count: int) -> list[str]:
    if not rows:
        return []
    cells = [[_cell(value) for value in row] for row in rows]
    more = f" (the last {len(rows)} of {count})" if count > len(rows) else ""
    return ["", f"{title}{more}", *(f"  {line}" for line in plain_table(header, cells).splitlines())]


def _cell(value: Any) -> str:
    if isinstance(value, list):
        value = ",".join(str(item) for item in value)
    return printable("" if value is None else str(value)) or "-"


def _short(moment: str | None) -> str:
    return when(unix(moment))
