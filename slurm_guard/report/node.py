"""The report on one node: `build` makes the JSON object of docs/job-report.md, `text` a page of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from slurm_guard import __version__
from slurm_guard.core.errors import NotFoundError
from slurm_guard.report.layout import iso, section, span, table, unix, when, wrap
from slurm_guard.store import fleet, jobs, queries
from slurm_guard.store.model import CLEAN

if TYPE_CHECKING:
    from slurm_guard.store import Store
    from slurm_guard.store.model import ActionRow, Allocation, FindingRow, Gap, NodeState, RunRow

SCHEMA = "1.0"
WIDTH = 80
_MOST = 200
_MOST_LINES = 10


def build(
    store: Store, node: str, since: int | None = None, until: int | None = None, cluster: str | None = None
) -> dict[str, Any]:
    """The report on a node over [since, until] in milliseconds; by default the last seven days on record.

    Raises NotFoundError if no run of the node is on record, StoreError if the store fails.
    """
    states = fleet.node_states(store, [node], cluster)
    state = next((one for one in states if one.last is not None), None)
    if state is None or state.last is None:
        raise NotFoundError(f"node {node} is not on record; expected Slurm's NodeName, see `sguard nodes`")
    until = state.last.ended if until is None else until
    since = until - 7 * 86_400_000 if since is None else since
    with store.read() as connection:
        numbers = list(queries.node_numbers(connection, [node], state.cluster).values())
        found = queries.findings(connection, nodes=numbers, since=since, until=until, most=_MOST)
        done = queries.actions(connection, nodes=numbers, since=since, until=until, most=_MOST)
        first = queries.first_run(connection, numbers, since, until)
    gaps = [] if first is None else fleet.silences(store, node, first, until, state.cluster)
    return {
        "schema": SCHEMA,
        "kind": "node",
        "generated": iso(round(time.time() * 1000)),
        "guard_version": __version__,
        "from": iso(since),
        "to": iso(until),
        **state_of(state),
        "findings": [_finding(one) for one in found],
        "actions": [action_of(one) for one in done],
        "jobs": [_job(one) for one in jobs.jobs_on(store, node, since, until, state.cluster)[:_MOST]],
        "gaps": [_gap(one) for one in gaps][-_MOST:],
    }


def state_of(state: NodeState) -> dict[str, Any]:
    """A node's state as reports show it."""
    drain = state.drained_by
    return {
        "cluster": state.cluster,
        "node": state.node,
        "status": state.status,
        "last": None if state.last is None else _run(state.last),
        "open_faults": [_finding(one) for one in state.open_faults],
        "drained": None if drain is None else action_of(drain),
    }


def action_of(one: ActionRow) -> dict[str, Any]:
    """An action as reports show it."""
    names = ("node", "action", "fault", "device", "reason", "outcome", "why", "answer", "by", "user", "mode")
    return {"at": iso(one.at), **{name: getattr(one, name) for name in names}, "job_id": one.job_id}


def _run(run: RunRow) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "hook": run.hook,
        "at": iso(run.started),
        "status": run.status,
        "mode": run.mode,
        "drill": run.drill,
        "uptime_s": run.uptime_s,
        "machine": {"boot_id": run.boot_id, "machine_id": run.machine_id, "serial": run.serial},
        "guard_version": run.guard_version,
        "check_set": run.check_set,
        "plan": {"hash": run.plan_hash, "state": run.plan_state, "problem": run.plan_problem},
        "passed": run.passed,
        "skipped": run.skipped,
        "coverage": run.coverage,
    }


def _finding(one: FindingRow) -> dict[str, Any]:
    names = ("fault", "status", "device", "device_id", "message", "tier", "blame", "scope", "event", "remedy")
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


def _gap(one: Gap) -> dict[str, Any]:
    return {"from": iso(one.start), "to": iso(one.end), "why": one.why}


def text(report: dict[str, Any], width: int = WIDTH) -> str:
    """The page of a node report; every line fits `width` columns, times are UTC."""
    last = report["last"]
    machine = last["machine"]
    where = f" on {report['cluster']}" if report["cluster"] else ""
    lines = wrap(f"Node {report['node']}{where}: {report['status']}", width)
    seen = f"last run {when(unix(last['at']))}, {last['hook']}, {last['status']}"
    lines += wrap(
        seen + (f", up {span(round(last['uptime_s'] * 1000))}" if last["uptime_s"] else ""), width, "  "
    )
    lines += wrap(f"machine {machine['machine_id'] or '-'}, serial {machine['serial'] or '-'}", width, "  ")
    if last["plan"]["state"] not in ("ok", ""):
        lines += wrap(f"plan: {last['plan']['problem'] or last['plan']['state']}", width, "  ")
    if report["drained"]:
        lines += wrap(f"drained by us: {action_line(report['drained'], with_node=False)}", width, "  ")
    lines += section("OPEN FAULTS", _faults(report, width))
    lines += section(
        f"FINDINGS  {when(unix(report['from']))} to {when(unix(report['to']))}", _found(report, width)
    )
    lines += section("WHAT WAS DONE", _done(report, width))
    lines += section("JOBS", _jobs(report, width))
    lines += section("COVERAGE", _gaps(report, width))
    return "\n".join(lines).rstrip() + "\n"


def action_line(one: dict[str, Any], *, with_node: bool) -> str:
    """One action as a sentence."""
    node = f" {one['node']}" if with_node else ""
    reason = f' "{one["reason"]}"' if one["reason"] else ""
    by = one["user"] or f"the {one['by']}"
    said = f"{when(unix(one['at']))} {one['action']}{node}{reason}: {one['outcome']} by {by}"
    return f"{said}; {one['why']}" if one["why"] else said


def _faults(report: dict[str, Any], width: int) -> list[str]:
    lines: list[str] = []
    for one in report["open_faults"]:
        where = f" {one['device']}" if one["device"] else ""
        lines += wrap(f"{one['fault']}{where}: {one['message']}", width, "  ", "    ")
        if one["remedy"]:
            lines += wrap(one["remedy"], width, "    -> ", "       ")
    if lines:
        return lines
    clean = report["last"]["status"] in CLEAN
    told = "None." if clean else "None that would take the node out of service; see the findings below."
    return wrap(told, width, "  ")


def _found(report: dict[str, Any], width: int) -> list[str]:
    """Findings, newest first; what repeats from run to run is one line with its count."""
    kinds: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for one in report["findings"]:
        kinds.setdefault((one["fault"], one["device"], one["status"]), []).append(one)
    lines: list[str] = []
    for (fault, device, status), some in list(kinds.items())[:_MOST_LINES]:
        times = f", {len(some)} times since {when(unix(some[-1]['at']))}" if len(some) > 1 else ""
        head = f"{when(unix(some[0]['at']))} {status} {fault} {device}".rstrip()
        lines += wrap(f"{head}{times}: {some[0]['message']}", width, "  ", "    ")
    if len(kinds) > _MOST_LINES:
        lines.append(f"  and {len(kinds) - _MOST_LINES} more faults")
    return lines or ["  None."]


def _done(report: dict[str, Any], width: int) -> list[str]:
    lines: list[str] = []
    for one in report["actions"][:_MOST_LINES]:
        lines += wrap(action_line(one, with_node=False), width, "  ", "    ")
    return lines or ["  Nothing."]


def _jobs(report: dict[str, Any], width: int) -> list[str]:
    rows = [
        (
            one["job_id"],
            one["user"] or "-",
            when(unix(one["opened"])) if one["opened"] else "start not on record",
            when(unix(one["closed"])) if one["closed"] else "no end on record",
            f"exit {one['exit_code']}" if one["exit_code"] else "",
        )
        for one in report["jobs"][:_MOST_LINES]
    ]
    lines = table(rows, width, most=(12, 14))
    more = len(report["jobs"]) - _MOST_LINES
    return [*lines, f"  and {more} more"] if more > 0 else lines or ["  None on record."]


def _gaps(report: dict[str, Any], width: int) -> list[str]:
    lines: list[str] = []
    for one in report["gaps"][-_MOST_LINES:]:
        start, end = unix(one["from"]), unix(one["to"])
        long = span((end or 0) - (start or 0))
        lines += wrap(f"{when(start)} for {long}: {one['why']}", width, "  ", "    ")
    silent = span(fleet.SILENCE_MS)
    return lines or wrap(f"Complete: never more than {silent} without a run.", width, "  ")
