"""Read rows from the store, by time window, node, fault and job. Each function takes an open connection's
store and answers with the plain data of `slurm_guard.store.model`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, func, literal_column, or_, select

from slurm_guard.store import schema
from slurm_guard.store.model import CLEAN, ActionRow, Allocation, FindingRow, RunRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import ColumnElement, Connection, Row, Select

_PARAMETERS = 500

_passed = schema.check_lists.alias("passed_list")
_skipped = schema.check_lists.alias("skipped_list")
_runs, _nodes, _boots, _guards = schema.runs, schema.nodes, schema.boots, schema.guards

_RUN_PLAIN = ("id", "hook", "started", "status", "elapsed_ms", "uptime_s", "mode", "job_id", "restart")
_BOOT = ("boot_id", "machine_id", "serial")
_GUARD = ("guard_version", "check_set", "plan_hash", "plan_state", "plan_problem")
_FINDING_PLAIN = (
    "run", "check", "fault", "status", "device", "device_id", "message", "metric", "value", "value_text",
    "unit", "blame", "scope", "tier", "since", "remedy", "node_id",
)  # fmt: skip
_ACTION_PLAIN = (
    "run", "at", "action", "fault", "device", "reason", "outcome", "why", "answer", "calls", "job_id",
    "node_id",
)  # fmt: skip
_ALLOCATION_PLAIN = (
    "id", "job_id", "opened", "restart", "start_time", "array_job_id", "array_task_id", "het_job_id", "uid",
    "user", "partition", "nodes", "exit_code", "closed", "prolog_run", "epilog_run",
)  # fmt: skip


def runs(
    connection: Connection, *where: ColumnElement[bool], most: int | None = None, newest: bool = False
) -> list[RunRow]:
    """Runs (not action records) that meet all conditions on `schema.runs`, by time, without findings."""
    order = _runs.c.started.desc() if newest else _runs.c.started.asc()
    query = _run_query().where(_runs.c.kind == "run", *where).order_by(order).limit(most)
    return [_run(row) for row in connection.execute(query)]


def runs_by_id(connection: Connection, ids: Iterable[int | None]) -> dict[int, RunRow]:
    """Runs by the number of their row, with findings and samples."""
    wanted = [one for one in ids if one is not None]
    found: list[RunRow] = []
    for some in chunks(wanted):
        found += runs(connection, _runs.c.id.in_(some))
    with_findings(connection, found)
    with_samples(connection, found)
    return {run.id: run for run in found}


def with_findings(connection: Connection, found: Sequence[RunRow]) -> None:
    """Load the findings of some runs into them."""
    by_id = {run.id: run for run in found if run.status not in CLEAN}
    for some in chunks(list(by_id)):
        for finding in _findings(connection, schema.findings.c.run.in_(some)):
            by_id[finding.run].findings.append(finding)


def with_samples(connection: Connection, found: Sequence[RunRow]) -> None:
    """Load values and growths of some runs into them."""
    by_id = {run.id: run for run in found}
    samples, names = schema.node_samples, schema.series
    query = select(samples.c.run, names.c.name, samples.c.value, samples.c.growth)
    query = query.join(names, names.c.id == samples.c.series)
    for some in chunks(list(by_id)):
        for run, name, value, growth in connection.execute(query.where(samples.c.run.in_(some))):
            if value is not None:
                by_id[run].values[name] = value
            if growth is not None:
                by_id[run].growths[name] = growth


def findings(
    connection: Connection,
    *,
    nodes: Iterable[int] | None = None,
    fault: str | None = None,
    device: str | None = None,
    since: int | None = None,
    until: int | None = None,
    events: bool = False,
    most: int | None = None,
) -> list[FindingRow]:
    """Findings of some nodes (by number), of one fault, events only, within [since, until], newest first."""
    table = schema.findings
    where: list[ColumnElement[bool]] = []
    if nodes is not None:
        where.append(table.c.node_id.in_(list(nodes)))
    if fault is not None:
        where.append(table.c.fault == fault)
    if device is not None:
        where.append(table.c.device == device)
    if events:
        where.append(table.c.event == literal_column("1"))
    where += _window(table.c.started, since, until)
    return _findings(connection, *where, newest=True, most=most)


def actions(
    connection: Connection,
    *,
    nodes: Iterable[int] | None = None,
    names: Iterable[str] | None = None,
    outcome: str | None = None,
    since: int | None = None,
    until: int | None = None,
    most: int | None = None,
) -> list[ActionRow]:
    """Actions (drain, resume, refuse, tell) by node, name, outcome and time, newest first."""
    table = schema.actions
    where: list[ColumnElement[bool]] = _window(table.c.at, since, until)
    if nodes is not None:
        where.append(table.c.node_id.in_(list(nodes)))
    if names is not None:
        where.append(table.c.action.in_(list(names)))
    if outcome is not None:
        where.append(table.c.outcome == outcome)
    asked = func.coalesce(_runs.c.parent, _runs.c.run_id).label("asked")
    by = (_runs.c.hook.label("by"), _runs.c.user, _runs.c.mode, _nodes.c.name, asked)
    query = select(*(table.c[name] for name in (*_ACTION_PLAIN, "extra")), *by)
    query = query.join(_runs, _runs.c.id == table.c.run).join(_nodes, _nodes.c.id == table.c.node_id)
    query = query.where(*where).order_by(table.c.at.desc(), table.c.id.desc()).limit(most)
    return [_action(row) for row in connection.execute(query)]


def allocations(
    connection: Connection, *where: ColumnElement[bool], most: int | None = None
) -> list[Allocation]:
    """Allocations that meet all conditions on `schema.allocations`, newest first."""
    table = schema.allocations
    query = select(table, _nodes.c.cluster, _nodes.c.name).join(_nodes, _nodes.c.id == table.c.node_id)
    query = query.where(*where).order_by(table.c.opened.desc()).limit(most)
    return [_allocation(row) for row in connection.execute(query)]


def overlapping(connection: Connection, node: int, start: int, end: int | None) -> list[Allocation]:
    """Allocations that were open on a node at any time within [start, end]; `end` None is now."""
    table = schema.allocations
    where = [
        table.c.node_id == node,
        or_(table.c.closed.is_(None), table.c.closed >= start),
        # An epilog without a prolog has its end only.
        or_(table.c.opened_sure == 1, table.c.opened >= start),
    ]
    if end is not None:
        where.append(table.c.opened <= end)
    return allocations(connection, *where)


def node_numbers(
    connection: Connection, names: Iterable[str], cluster: str | None = None
) -> dict[tuple[str, str], int]:
    """The numbers of nodes by (cluster, name); names that are not on record are left out."""
    found: dict[tuple[str, str], int] = {}
    for some in chunks(list(names)):
        where: list[ColumnElement[bool]] = [_nodes.c.name.in_(some)]
        if cluster is not None:
            where.append(_nodes.c.cluster == cluster)
        query = select(_nodes.c.cluster, _nodes.c.name, _nodes.c.id).where(*where)
        found.update({(row.cluster, row.name): row.id for row in connection.execute(query)})
    return found


def first_run(connection: Connection, nodes: Sequence[int], since: int, until: int) -> int | None:
    """When the first run of some nodes within [since, until] began."""
    query = select(func.min(_runs.c.started)).where(_runs.c.node_id.in_(nodes), _runs.c.kind == "run")
    found: int | None = connection.scalar(query.where(at(_runs.c.started, since, until)))
    return found


def last_pass(connection: Connection, node: int, check: str, since: int, until: int) -> int | None:
    """When the last run of a node within [since, until] began in which a check passed."""
    named = (" " + _passed.c.names + " ").contains(f" {check} ", autoescape=True)
    query = select(_runs.c.started).join(_passed, _passed.c.id == _runs.c.passed)
    query = query.where(_runs.c.node_id == node, at(_runs.c.started, since, until), named)
    found: int | None = connection.scalar(query.order_by(_runs.c.started.desc()).limit(1))
    return found


def longest_silence(connection: Connection, node: int, start: int, end: int) -> tuple[int, int]:
    """The longest time within [start, end] in which no run of a node began."""
    where = (_runs.c.node_id == node, _runs.c.kind == "run", at(_runs.c.started, start, end))
    earlier = func.lag(_runs.c.started, 1, start).over(order_by=_runs.c.started)
    steps = select(earlier.label("since"), _runs.c.started.label("until")).where(*where).subquery()
    longest = select(steps).order_by((steps.c.until - steps.c.since).desc()).limit(1)
    found: list[tuple[int, int]] = [(row.since, row.until) for row in connection.execute(longest)]
    last: int = connection.scalar(select(func.max(_runs.c.started)).where(*where)) or start
    return max((*found, (last, end)), key=lambda step: step[1] - step[0])


def boots_of(connection: Connection, runs_: Iterable[int | None]) -> dict[int, str]:
    """The boot id of some runs, by the number of their row."""
    query = select(_runs.c.id, _boots.c.boot_id).join(_boots, _boots.c.id == _runs.c.boot)
    found: dict[int, str] = {}
    for some in chunks([one for one in runs_ if one is not None]):
        found.update(connection.execute(query.where(_runs.c.id.in_(some))).tuples().all())
    return found


def at(column: Any, since: int | None, until: int | None) -> ColumnElement[bool]:
    """The condition that a time lies within [since, until]."""
    return and_(True, *_window(column, since, until))


def chunks(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Lists that are short enough for the parameters of one statement."""
    for start in range(0, len(items), _PARAMETERS):
        yield items[start : start + _PARAMETERS]


def _window(column: Any, since: int | None, until: int | None) -> list[ColumnElement[bool]]:
    where: list[ColumnElement[bool]] = []
    if since is not None:
        where.append(column >= since)
    if until is not None:
        where.append(column <= until)
    return where


def _run_query() -> Select[Any]:
    columns: list[Any] = [
        _runs,
        _nodes.c.cluster,
        _nodes.c.name.label("node"),
        *(_boots.c[name] for name in _BOOT),
        *(_guards.c[name] for name in _GUARD),
        _passed.c.names.label("passed_names"),
        _skipped.c.names.label("skipped_names"),
    ]
    return (
        select(*columns)
        .join(_nodes, _nodes.c.id == _runs.c.node_id)
        .join(_boots, _boots.c.id == _runs.c.boot)
        .join(_guards, _guards.c.id == _runs.c.guard)
        .outerjoin(_passed, _passed.c.id == _runs.c.passed)
        .outerjoin(_skipped, _skipped.c.id == _runs.c.skipped)
    )


def _run(row: Row[Any]) -> RunRow:
    found = row._mapping
    return RunRow(
        run_id=found["run_id"].hex(),
        cluster=found["cluster"],
        node=found["node"],
        drill=bool(found["drill"]),
        passed=(found["passed_names"] or "").split(),
        skipped=(found["skipped_names"] or "").split(),
        others=_list(found["others"]),
        coverage={source: str(said) for source, said in _object(found["coverage"]).items()},
        decisions=_list(found["decisions"]),
        dropped=found["dropped"] or 0,
        exit=found["exit"] or 0,
        **{name: found[name] for name in (*_RUN_PLAIN, *_BOOT, *_GUARD)},
    )


def _findings(
    connection: Connection, *where: ColumnElement[bool], newest: bool = False, most: int | None = None
) -> list[FindingRow]:
    table = schema.findings
    order = (table.c.started.desc(), table.c.id) if newest else (table.c.id,)
    query = select(table, _nodes.c.name).join(_nodes, _nodes.c.id == table.c.node_id)
    query = query.where(*where).order_by(*order).limit(most)
    return [_finding(row) for row in connection.execute(query)]


def _finding(row: Row[Any]) -> FindingRow:
    found = row._mapping
    return FindingRow(
        node=found["name"],
        at=found["started"],
        reference=json.loads(found["reference"]) if found["reference"] else None,
        event=bool(found["event"]),
        extra=_object(found["extra"]),
        **{name: found[name] for name in _FINDING_PLAIN},
    )


def _action(row: Row[Any]) -> ActionRow:
    found = row._mapping
    plain = {name: found[name] for name in _ACTION_PLAIN}
    plain["asked"] = found["asked"].hex()
    written = _object(found["extra"]).get("written")
    plain["written"] = written if isinstance(written, bool) else None
    return ActionRow(node=found["name"], by=found["by"], user=found["user"], mode=found["mode"], **plain)


def _allocation(row: Row[Any]) -> Allocation:
    found = row._mapping
    return Allocation(
        cluster=found["cluster"],
        node=found["name"],
        opened_sure=bool(found["opened_sure"]),
        restart_sure=bool(found["restart_sure"]),
        gpus=_list(found["gpus"]),
        **{name: found[name] for name in _ALLOCATION_PLAIN},
    )


def _list(text: str | None) -> list[Any]:
    found = json.loads(text) if text else []
    return found if isinstance(found, list) else []


def _object(text: str | None) -> dict[str, Any]:
    found = json.loads(text) if text else {}
    return found if isinstance(found, dict) else {}
