"""The report on one node: `build` makes the JSON object of docs/job-report.md, `text` a page of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from slurm_guard import __version__
from slurm_guard.core.errors import NotFoundError
from slurm_guard.report import incidents
from slurm_guard.report.actions import events, sentence
from slurm_guard.report.layout import iso
from slurm_guard.report.node_text import text
from slurm_guard.report.open_faults import Trouble, finding_of
from slurm_guard.report.outlook import Slurm, look
from slurm_guard.store import fleet, jobs, queries

if TYPE_CHECKING:
    from slurm_guard.core.plan import Plan
    from slurm_guard.store import Store
    from slurm_guard.store.model import ActionRow, Allocation, Gap, NodeState, RunRow

__all__ = ["SCHEMA", "build", "text"]

SCHEMA = "1.0"
_MOST = 200
_WEEK_MS = 7 * 86_400_000


def build(
    store: Store,
    node: str,
    since: int | None = None,
    until: int | None = None,
    cluster: str | None = None,
    *,
    plan: Plan | None = None,
    slurm: Slurm | None = None,
    now: int | None = None,
) -> dict[str, Any]:
    """The report on a node over [since, until] in milliseconds; by default the last seven days on record.

    `slurm` is what Slurm said of its nodes, None if it was not asked; `plan` tells what comes next; `now` is
    in milliseconds. Raises NotFoundError if no run of the node is on record, StoreError if the store fails.
    """
    states = fleet.node_states(store, [node], cluster)
    state = next((one for one in states if one.last is not None), None)
    if state is None or state.last is None:
        raise NotFoundError(f"node {node} is not on record; expected Slurm's NodeName, see `sguard nodes`")
    moment = round(time.time() * 1000) if now is None else now
    # A node that fell silent weeks ago shows its last week.
    until = max(moment, state.last.ended) if until is None else until
    since = min(until, state.last.ended) - _WEEK_MS if since is None else since
    asked = slurm if slurm is not None else Slurm(problem="not asked")
    trouble = Trouble(store, state, asked)
    how = trouble.drain() if asked.is_out(node) is not False else None
    return {
        "schema": SCHEMA,
        "kind": "node",
        "generated": iso(moment),
        "guard_version": __version__,
        "from": iso(since),
        "to": iso(until),
        **state_of(state, asked),
        "slurm_problem": asked.problem or None,
        "next": _next(state, asked, plan),
        "guard": sentence(how.as_dict()) if how is not None else None,
        "guard_at": iso(how.at) if how is not None else None,
        "open_faults": trouble.open_faults(),
        "incidents": incidents.named(store, [node], state.cluster, since, until),
        **_of_the_time(store, state, since, until),
    }


def _of_the_time(store: Store, state: NodeState, since: int, until: int) -> dict[str, Any]:
    """Findings, events, jobs and gaps of a time, newest first."""
    with store.read() as connection:
        numbers = list(queries.node_numbers(connection, [state.node], state.cluster).values())
        found = queries.findings(connection, nodes=numbers, since=since, until=until, most=_MOST)
        done = queries.actions(connection, nodes=numbers, since=since, until=until, most=_MOST)
        first = queries.first_run(connection, numbers, since, until)
    gaps = [] if first is None else fleet.silences(store, state.node, first, until, state.cluster)
    jobs_there = jobs.jobs_on(store, state.node, since, until, state.cluster)
    return {
        "findings": [finding_of(one) for one in found],
        "actions": [one.as_dict() for one in reversed(events(done))],
        "jobs": [_job(one) for one in jobs_there[:_MOST]],
        "gaps": [_gap(one) for one in _merged(gaps)][-_MOST:],
    }


def _next(state: NodeState, slurm: Slurm, plan: Plan | None) -> str | None:
    """What has to happen before the node is back in service; None if it is not out because of us."""
    drained = look(plan, state.node, slurm.nodes.get(state.node), state) if plan is not None else None
    return drained.next if drained is not None else None


def state_of(state: NodeState, slurm: Slurm) -> dict[str, Any]:
    """A node's state as reports show it."""
    told = slurm.nodes.get(state.node)
    # A node that somebody put back is in service, whatever the records say of it.
    drain = None if slurm.is_out(state.node) is False else state.drained_by
    said = None
    if told is not None:
        since = told.reason_time * 1000 if told.reason_time else None
        said = {"state": str(told), "reason": told.reason or None, "by": told.reason_user or None}
        said["since"] = iso(since)
    return {
        "cluster": state.cluster,
        "node": state.node,
        "status": state.status,
        "slurm": said,
        "last": None if state.last is None else _run(state.last),
        "open_faults": [finding_of(one) for one in state.open_faults],
        "drained": None if drain is None else _drain(drain),
    }


def _drain(one: ActionRow) -> dict[str, Any]:
    """Our drain that still stands on record."""
    names = ("fault", "device", "reason", "by", "user", "job_id")
    return {"at": iso(one.at), **{name: getattr(one, name) for name in names}}


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


def _merged(gaps: list[Gap]) -> list[Gap]:
    """Gaps by time; runs that one after the other could not see the same are one gap."""
    found: list[Gap] = []
    last: dict[str, Gap] = {}
    for one in gaps:
        known = last.get(one.why)
        if known is not None and one.start - known.end <= fleet.SILENCE_MS:
            known.end = max(known.end, one.end)
        else:
            last[one.why] = one
            found.append(one)
    return found


def _gap(one: Gap) -> dict[str, Any]:
    return {"from": iso(one.start), "to": iso(one.end), "why": one.why}
