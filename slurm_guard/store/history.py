"""Runs as `sguard policy replay` reads them: bounded pieces of time, and only of nodes with something to see.

A run is as small as it can be here, since weeks of thousands of nodes go by; texts of JSON stay texts until
somebody asks.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, or_, select

from slurm_guard.core.outcome import FAIL, TIMEOUT, Finding
from slurm_guard.store import queries, schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import ColumnElement, Connection, Row

    from slurm_guard.store.model import ActionRow

_runs, _findings, _boots = schema.runs, schema.findings, schema.boots
_RUN = (
    "id", "node_id", "started", "elapsed_ms", "hook", "uptime_s", "status", "job_id", "others", "coverage",
    "decisions", "passed",
)  # fmt: skip
_FINDING = ("run", "check", "fault", "status", "device", "device_id", "scope", "tier", "since")
#: A job that was given a node before its drain has its prolog soon after; a later prolog says that somebody
#: put the node back in service.
LATE_PROLOG_MS = 15 * 60_000
#: What was really done to a node. `withdrawn` is a drain that was taken back.
_DEEDS = (("drain", "done"), ("refuse", "done"), ("resume", "done"), ("resume", "withdrawn"))


@dataclass(slots=True)
class PastRun:
    """One run of a hook. Times are milliseconds; `machine` is (serial, machine_id)."""

    id: int
    node_id: int
    at: int
    ended: int
    hook: str
    uptime_s: float | None
    job_id: int | None
    boot_id: str
    machine: tuple[str, str]
    passed: frozenset[str]
    others: str | None = None
    coverage: str | None = None
    decisions: str | None = None
    findings: list[Finding] = field(default_factory=list)

    def other_jobs(self) -> list[dict[str, Any]]:
        """The other allocations that were open on the node."""
        return _list(self.others)

    def decided(self) -> list[dict[str, Any]]:
        """What the node's own policy decided then."""
        return _list(self.decisions)

    def hung(self) -> list[str]:
        """The sources that did not answer."""
        found = json.loads(self.coverage) if self.coverage else {}
        return [name for name, said in found.items() if said == "hung"] if isinstance(found, dict) else []


def _list(text: str | None) -> list[dict[str, Any]]:
    found = json.loads(text) if text else []
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def nodes(connection: Connection) -> list[tuple[int, str, str]]:
    """Every node on record: its number, cluster and name."""
    table = schema.nodes
    found = connection.execute(select(table.c.id, table.c.cluster, table.c.name))
    return [(row.id, row.cluster, row.name) for row in found]


def spans(connection: Connection, numbers: Iterable[int], until: int) -> dict[int, tuple[int, int]]:
    """The first and the last run of nodes that began before `until`; an index seek for each."""
    node, found = schema.nodes, {}
    mine = (_runs.c.node_id == node.c.id, _runs.c.started < until)
    first = select(func.min(_runs.c.started)).where(*mine).scalar_subquery()
    last = select(func.max(_runs.c.started)).where(*mine).scalar_subquery()
    for some in queries.chunks(list(numbers)):
        for number, start, end in connection.execute(
            select(node.c.id, first, last).where(node.c.id.in_(some))
        ):
            if start is not None:
                found[number] = (start, end)
    return found


def trouble(
    connection: Connection, numbers: Iterable[int], since: int, until: int, step: int
) -> dict[int, set[int]]:
    """On which nodes something failed, hung or was swapped, by the number of the `step` ms from `since`."""
    found: dict[int, set[int]] = {}
    number = ((_findings.c.started - since) // step).label("step")
    for some in queries.chunks(list(numbers)):
        where = [_findings.c.node_id.in_(some), *_within(_findings.c.started, since, until)]
        bad = or_(_findings.c.status.in_((FAIL, TIMEOUT)), _findings.c.check == "inventory")
        for node, at in connection.execute(select(_findings.c.node_id, number).where(*where, bad).distinct()):
            found.setdefault(at, set()).add(node)
    return found


def runs(
    connection: Connection, numbers: Iterable[int], since: int, until: int, lists: CheckLists
) -> list[PastRun]:
    """The runs of some nodes in [since, until), with their findings, in order of time."""
    found: list[PastRun] = []
    for some in queries.chunks(list(numbers)):
        columns = [*(_runs.c[name] for name in _RUN), _boots.c.boot_id, _boots.c.machine_id, _boots.c.serial]
        query = select(*columns).join(_boots, _boots.c.id == _runs.c.boot)
        where = [_runs.c.node_id.in_(some), *_within(_runs.c.started, since, until)]
        query = query.where(*where, _runs.c.kind == "run")
        found += [_run(row, lists) for row in connection.execute(query).all()]
        _add_findings(connection, found, some, since, until)
    return sorted(found, key=lambda run: (run.at, run.id))


def _add_findings(
    connection: Connection, found: list[PastRun], numbers: Iterable[int], since: int, until: int
) -> None:
    by_id = {run.id: run for run in found}
    columns = [*(_findings.c[name] for name in _FINDING), _findings.c.event]
    where = [_findings.c.node_id.in_(list(numbers)), *_within(_findings.c.started, since, until)]
    for row in connection.execute(select(*columns).where(*where).order_by(_findings.c.id)).all():
        if row.run in by_id:
            by_id[row.run].findings.append(_finding(row))


def _within(column: Any, since: int, until: int) -> list[ColumnElement[bool]]:
    return [column >= since, column < until]


def _run(row: Row[Any], lists: CheckLists) -> PastRun:
    return PastRun(
        id=row.id,
        node_id=row.node_id,
        at=row.started,
        ended=row.started + round(row.elapsed_ms or 0),
        hook=row.hook,
        uptime_s=row.uptime_s,
        job_id=row.job_id,
        boot_id=row.boot_id,
        machine=(row.serial, row.machine_id),
        passed=lists.names(row.passed),
        others=row.others,
        coverage=row.coverage,
        decisions=row.decisions,
    )


def _finding(row: Row[Any]) -> Finding:
    found = Finding(
        row.status,
        code=row.fault.partition(".")[2],
        device=row.device,
        device_id=row.device_id,
        scope=row.scope,
        tier=row.tier,
        since=row.since,
        event=bool(row.event),
    )
    found.check = row.check
    return found


class CheckLists:
    """The lists of checks that passed together, by number; there are few of them."""

    def __init__(self, connection: Connection) -> None:
        table = schema.check_lists
        rows = connection.execute(select(table.c.id, table.c.names))
        self._names = {row.id: frozenset(row.names.split()) for row in rows}

    def names(self, number: int | None) -> frozenset[str]:
        """The checks of one list; none for no list."""
        return self._names.get(number, frozenset()) if number is not None else frozenset()

    def all(self) -> frozenset[str]:
        """Every check that ever passed or was skipped."""
        return frozenset().union(*self._names.values())


def job(connection: Connection, run: PastRun) -> tuple[list[str], int | None]:
    """The GPU tokens and the uid of a prolog's or epilog's job."""
    if run.job_id is None:
        return [], None
    table = schema.allocations
    of_run = or_(table.c.prolog_run == run.id, table.c.epilog_run == run.id)
    where = (table.c.job_id == run.job_id, table.c.node_id == run.node_id, of_run)
    found = queries.allocations(connection, *where, most=1)
    return ([str(one) for one in found[0].gpus], found[0].uid) if found else ([], None)


def deeds(connection: Connection, since: int, until: int) -> list[ActionRow]:
    """Drains, refusals and resumes that were done in [since, until) and changed something, oldest first."""
    found = [
        one
        for name, outcome in _DEEDS
        for one in queries.actions(connection, names=[name], outcome=outcome, since=since, until=until - 1)
        if name == "refuse" or not one.changed_nothing
    ]
    return sorted(found, key=lambda one: one.at)


def standing(connection: Connection, before: int) -> dict[int, ActionRow]:
    """The drain in which each node was at a time, by node number, as far as the records tell.

    Somebody may have ended one with scontrol: then jobs have started there since.
    """
    found: dict[int, ActionRow] = {}
    for one in deeds(connection, 0, before):
        if one.action == "resume":
            found.pop(one.node_id, None)
        else:
            found.setdefault(one.node_id, one)
    return {node: one for node, one in found.items() if not _started(connection, node, one.at, before)}


def _started(connection: Connection, node: int, drained: int, until: int) -> bool:
    """True if a job began on a node after its drain."""
    where = [_runs.c.node_id == node, *_within(_runs.c.started, drained + LATE_PROLOG_MS, until)]
    query = select(_runs.c.id).where(*where, _runs.c.hook == "prolog").limit(1)
    return connection.scalar(query) is not None
