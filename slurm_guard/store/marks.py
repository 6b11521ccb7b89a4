"""What the records say about faults, run by run and in order of time: sightings, clean runs, actions, words.

Incidents are made from these alone (`slurm_guard.correlate`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import and_, exists, func, or_, select

from slurm_guard.core.outcome import FAIL, TIMEOUT, UNKNOWN, WARN
from slurm_guard.store import schema
from slurm_guard.store.incident_model import PLAN, SHARED
from slurm_guard.store.schema_incidents import incident_ends, incident_members

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import ColumnElement, Connection, Row

#: Faults of these tiers are no incident of the cluster.
NOT_COUNTED = ("NOTE", "JOB")
#: Hooks that run at a pace of the site's own.
PACED = ("healthcheck", "timer")
#: States of a node's plan that a person must know of.
BAD_PLANS = ("default", "foreign", "stale", "torn")
_NEWEST = """
SELECT max(
  coalesce((SELECT started FROM runs WHERE node_id=? AND id<=? ORDER BY started DESC LIMIT 1), 0),
  coalesce((SELECT at FROM actions WHERE node_id=? AND run<=? ORDER BY at DESC LIMIT 1), 0))
"""
_runs, _boots, _guards = schema.runs, schema.boots, schema.guards


class Sighting(NamedTuple):
    """One fault on one device, as one run saw it."""

    fault: str
    device: str
    scope: str
    tier: str
    message: str
    event: bool


@dataclass(slots=True)
class RunMark:
    """A run: what it saw, by (fault, device), and which checks could judge all they look at."""

    at: int
    order: bytes
    node_id: int
    hook: str
    boot: str
    machine_id: str
    serial: str
    seen: dict[tuple[str, str], Sighting]
    judged: frozenset[str]


@dataclass(slots=True)
class ActionMark:
    """A drain, refusal or resume that ended `done`, or was `held` by a limit of the budget."""

    at: int
    order: bytes
    node_id: int
    action: str
    outcome: str
    limit: str
    why: str
    by: str


@dataclass(slots=True)
class EndMark:
    """A person called a fault over."""

    at: int
    order: bytes
    node_id: int
    fault: str
    device: str
    why: str


@dataclass(slots=True)
class MovedMark:
    """A healthcheck named the node's cluster; earlier ones, from before the first plan, did not."""

    at: int
    order: bytes
    node_id: int
    cluster: str


Mark = RunMark | ActionMark | EndMark | MovedMark
_RANK: dict[type, int] = {MovedMark: 0, RunMark: 1, ActionMark: 2, EndMark: 3}


def in_order(some: Iterable[Mark]) -> list[Mark]:
    """By time, in one millisecond by kind and run id, so that the order of ingest never counts."""
    return sorted(some, key=lambda one: (one.at, _RANK[type(one)], one.order))


def nodes_concerned(connection: Connection, after: int, upto: int) -> set[int]:
    """Nodes for which runs numbered in (after, upto] may change an incident: others had clean runs only."""
    member, new = incident_members, _numbered(after, upto)
    concerned = exists().where(
        member.c.node_id == _runs.c.node_id,
        or_(member.c.ended.is_(None), member.c.ended >= _runs.c.started),
    )
    bad = select(_guards.c.id).where(_guards.c.plan_state.in_(BAD_PLANS))
    trouble = or_(_runs.c.status.in_((FAIL, TIMEOUT)), _runs.c.guard.in_(bad), concerned)
    found = set(connection.scalars(select(_runs.c.node_id).distinct().where(new, trouble)))
    action = schema.actions
    acted = select(action.c.node_id).distinct().where(action.c.run > after, action.c.run <= upto)
    return found | set(connection.scalars(acted.where(_counted_actions())))


def of_new_runs(connection: Connection, after: int, upto: int, nodes: set[int]) -> dict[int, list[Mark]]:
    """The marks of runs numbered in (after, upto], in order, for each of these nodes."""
    found: dict[int, list[Mark]] = {node: [] for node in nodes}
    of_actions = and_(schema.actions.c.run > after, schema.actions.c.run <= upto)
    for one in _marks(connection, _numbered(after, upto), of_actions):
        if one.node_id in found:
            found[one.node_id].append(one)
    return {node: in_order(some) for node, some in found.items() if some}


def of_node(connection: Connection, node: int, since: int, upto: int) -> list[Mark]:
    """All marks of a node since a time, in order, of runs up to a number and of what people said."""
    run, action, end = _runs, schema.actions, incident_ends
    found = _marks(
        connection,
        and_(run.c.node_id == node, run.c.started >= since, run.c.id <= upto),
        and_(action.c.node_id == node, action.c.at >= since, action.c.run <= upto),
    )
    said = select(end).where(end.c.node_id == node, end.c.at >= since)
    for row in connection.execute(said):
        order = f"{row.fault} {row.device}".encode()
        found.append(EndMark(row.at, order, node, row.fault, row.device, closed_words(row.by, row.text)))
    return in_order([*found, *_moves(connection, node, and_(run.c.started >= since, run.c.id <= upto))])


def first_of(connection: Connection, after: int, upto: int) -> int:
    """When the first of the runs numbered in (after, upto] began."""
    return (
        connection.scalar(select(func.min(_runs.c.started)).where(_runs.c.id > after, _runs.c.id <= upto))
        or 0
    )


def nameless(connection: Connection) -> set[int]:
    """Nodes of no cluster of which there is one, and one only, under the name of a cluster as well."""
    node, named = schema.nodes, schema.nodes.alias("named")
    query = select(node.c.id).join(named, and_(named.c.name == node.c.name, named.c.cluster != ""))
    query = query.where(node.c.cluster == "").group_by(node.c.id).having(func.count() == 1)
    return set(connection.scalars(query))


def moves(connection: Connection, after: int, upto: int, nodes: Iterable[int]) -> dict[int, list[Mark]]:
    """For nodes of no cluster: the healthchecks among new runs in which they have one."""
    new = and_(_runs.c.id > after, _runs.c.id <= upto)
    found = {node: _moves(connection, node, new) for node in nodes}
    return {node: some for node, some in found.items() if some}


def _moves(connection: Connection, node: int, of_runs: ColumnElement[bool]) -> list[Mark]:
    unnamed, named = schema.nodes.alias("unnamed"), schema.nodes.alias("named")
    query = select(named.c.id, named.c.cluster).join(unnamed, named.c.name == unnamed.c.name)
    twins = connection.execute(
        query.where(unnamed.c.id == node, unnamed.c.cluster == "", named.c.cluster != "")
    ).all()
    if len(twins) != 1:
        return []
    runs = select(_runs.c.started, _runs.c.run_id).where(_runs.c.node_id == twins[0].id, of_runs)
    rows = connection.execute(runs.where(_runs.c.kind == "run", _runs.c.hook.in_(PACED)))
    return [MovedMark(row.started, row.run_id, node, twins[0].cluster) for row in rows]


def closed_words(by: str, text: str) -> str:
    """How an end that a person gave to a fault is told."""
    return f"closed by {by}: {text}" if text else f"closed by {by}"


def newest(connection: Connection, node: int, upto: int) -> int:
    """The time of the newest mark of a node among runs up to a number; 0 if there is none."""
    found: int = connection.exec_driver_sql(_NEWEST, (node, upto, node, upto)).scalar_one()
    return found


def _numbered(after: int, upto: int) -> ColumnElement[bool]:
    return and_(_runs.c.id > after, _runs.c.id <= upto, _runs.c.kind == "run")


def _counted_actions() -> ColumnElement[bool]:
    action = schema.actions
    ended = and_(action.c.action.in_(("drain", "refuse", "resume")), action.c.outcome == "done")
    return or_(ended, and_(action.c.outcome == "held", action.c.extra.contains('"limit"')))


def _marks(
    connection: Connection, of_runs: ColumnElement[bool], of_actions: ColumnElement[bool]
) -> list[Mark]:
    findings, results = _findings(connection, of_runs), _results(connection, of_runs)
    passed = schema.check_lists
    columns = (_runs.c.id, _runs.c.run_id, _runs.c.node_id, _runs.c.started, _runs.c.hook, _runs.c.decisions)
    boot = (_boots.c.boot_id, _boots.c.machine_id, _boots.c.serial)
    plan = (_guards.c.plan_state, _guards.c.plan_problem)
    query = select(*columns, *boot, *plan, passed.c.names).join(_boots, _boots.c.id == _runs.c.boot)
    query = query.join(_guards, _guards.c.id == _runs.c.guard)
    query = query.outerjoin(passed, passed.c.id == _runs.c.passed)
    rows = connection.execute(query.where(of_runs, _runs.c.kind == "run"))
    found = [_run_mark(row, findings.get(row.id, ()), results.get(row.id, {})) for row in rows]
    return [*found, *_actions(connection, of_actions)]


def _findings(connection: Connection, of_runs: ColumnElement[bool]) -> dict[int, list[Row[Any]]]:
    table = schema.findings
    names = ("run", "check", "fault", "status", "device", "scope", "tier", "message", "event")
    query = select(*(table.c[name] for name in names)).join(_runs, _runs.c.id == table.c.run)
    found: dict[int, list[Row[Any]]] = {}
    for row in connection.execute(query.where(of_runs).order_by(table.c.id)):
        found.setdefault(row.run, []).append(row)
    return found


def _results(connection: Connection, of_runs: ColumnElement[bool]) -> dict[int, dict[str, str]]:
    table = schema.results
    query = select(table.c.run, table.c.check, table.c.status).join(_runs, _runs.c.id == table.c.run)
    found: dict[int, dict[str, str]] = {}
    for run, check, status in connection.execute(query.where(of_runs)):
        found.setdefault(run, {})[check] = status
    return found


def _run_mark(row: Row[Any], findings: Iterable[Row[Any]], results: dict[str, str]) -> RunMark:
    bad = {one.check for one in findings if one.status in (UNKNOWN, TIMEOUT)}
    judged = {check for check, status in results.items() if status in (WARN, FAIL)} - bad
    tiers = _tiers(row.decisions) if findings else {}
    seen = {}
    for one in findings:
        key = one.fault, one.device
        tier = tiers.get(key) or one.tier or "WARN"
        if one.status in (FAIL, TIMEOUT) and tier not in NOT_COUNTED:
            seen[key] = Sighting(*key, one.scope or "node", tier, one.message, bool(one.event))
    if row.plan_state in BAD_PLANS:
        fault = f"{PLAN}.{row.plan_state}", "plan"
        seen[fault] = Sighting(*fault, SHARED, "WARN", row.plan_problem, False)
    elif row.plan_state == "ok":
        judged.add(PLAN)
    return RunMark(
        row.started, row.run_id, row.node_id, row.hook, row.boot_id, row.machine_id, row.serial, seen,
        _judged(row.names, judged),
    )  # fmt: skip


def _judged(passed: str | None, more: set[str]) -> frozenset[str]:
    """The checks that passed, and those that found something and left nothing open."""
    names = passed or ""
    if not more or more == {PLAN}:
        key = names, bool(more)
        if key not in _KNOWN:
            if len(_KNOWN) >= _MOST_KNOWN:
                _KNOWN.clear()
            _KNOWN[key] = frozenset((*names.split(), *more))
        return _KNOWN[key]
    return frozenset((*names.split(), *more))


#: Lists of checks that passed, as sets: there are few, and each stands in very many runs.
_KNOWN: dict[tuple[str, bool], frozenset[str]] = {}
_MOST_KNOWN = 1000


def _tiers(decisions: str | None) -> dict[tuple[str, str], str]:
    """The tiers that the policy gave, by fault and device: a site may have its own."""
    try:
        found = json.loads(decisions) if decisions else []
        return {(one["fault"], one.get("device") or ""): str(one["tier"]) for one in found if one.get("tier")}
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}  # another version's decisions: the finding's own tier counts


def _actions(connection: Connection, of_actions: ColumnElement[bool]) -> list[Mark]:
    table = schema.actions
    names = ("id", "node_id", "at", "action", "outcome", "why", "extra")
    query = select(*(table.c[name] for name in names), _runs.c.run_id, _runs.c.hook, _runs.c.user)
    query = query.join(_runs, _runs.c.id == table.c.run).where(of_actions, _counted_actions())
    found: list[Mark] = []
    for row in connection.execute(query):
        limit = _limit(row.extra) if row.outcome == "held" else ""
        if row.outcome == "held" and not limit:
            continue
        who = row.user or row.hook
        order = row.run_id + f"{row.action} {limit}".encode()
        found.append(
            ActionMark(row.at, order, row.node_id, row.action, row.outcome, limit, row.why or "", who)
        )
    return found


def _limit(extra: str | None) -> str:
    """Which limit of the budget held an action; empty if none did."""
    found = (json.loads(extra) if extra else {}).get("limit")
    return found if isinstance(found, str) and found.isidentifier() and len(found) <= 32 else ""
