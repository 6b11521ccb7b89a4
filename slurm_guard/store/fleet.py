"""What the store knows of nodes: their last run, what is open, what was done, and what was not seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from sqlalchemy import func, select

from slurm_guard.core.outcome import FAIL, TIMEOUT, WARN
from slurm_guard.core.policy import DRAIN_TIERS
from slurm_guard.store import queries, schema
from slurm_guard.store.model import ActionRow, Gap, NodeState, RunRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

    from slurm_guard.store.engine import Store
    from slurm_guard.store.model import FindingRow

#: Runs are expected at least this often; a longer silence is a gap.
SILENCE_MS = 15 * 60_000


def node_states(
    store: Store, names: Iterable[str] | None = None, cluster: str | None = None
) -> list[NodeState]:
    """The state of all nodes on record, or of some, by name."""
    with store.read() as connection:
        numbers = _numbers(connection, names, cluster)
        last = latest(connection, list(numbers.values()))
        drains = _drains(connection, list(numbers.values()))
        events = _events(connection, list(numbers.values()), last)
        return [
            _state(key, last.get(number), drains.get(number, []), events.get(number, []))
            for key, number in sorted(numbers.items())
        ]


def latest(connection: Connection, nodes: Sequence[int]) -> dict[int, RunRow]:
    """The last run of each node (by number), with its findings; one index seek per node."""
    run, node = schema.runs, schema.nodes
    last = (
        select(run.c.id)
        .where(run.c.node_id == node.c.id, run.c.kind == "run")
        .order_by(run.c.started.desc())
        .limit(1)
        .scalar_subquery()
    )
    found: dict[int, int] = {}
    for some in queries.chunks(nodes):
        query = select(node.c.id, last).where(node.c.id.in_(some))
        found.update({number: one for number, one in connection.execute(query) if one is not None})
    by_run = {one: number for number, one in found.items()}
    rows: list[RunRow] = []
    for some in queries.chunks(list(by_run)):
        rows += queries.runs(connection, run.c.id.in_(some))
    queries.with_findings(connection, rows)
    return {by_run[row.id]: row for row in rows}


def drains(
    store: Store,
    since: int | None = None,
    until: int | None = None,
    nodes: Iterable[str] | None = None,
    cluster: str | None = None,
) -> list[ActionRow]:
    """Drains, refusals and resumes of a time, newest first."""
    with store.read() as connection:
        numbers = list(_numbers(connection, nodes, cluster).values()) if nodes or cluster else None
        some_nodes = [None] if numbers is None else list(queries.chunks(numbers))
        names = ("drain", "refuse", "resume")
        found = [
            one
            for some in some_nodes
            for one in queries.actions(connection, nodes=some, names=names, since=since, until=until)
        ]
        return sorted(found, key=lambda one: one.at, reverse=True)


def silences(store: Store, node: str, since: int, until: int, cluster: str | None = None) -> list[Gap]:
    """Times within [since, until] in which a node left no run, and runs that could not see everything."""
    table = schema.runs
    with store.read() as connection:
        numbers = queries.node_numbers(connection, [node], cluster)
        found: list[Gap] = []
        for number in numbers.values():
            query = select(table.c.started).where(table.c.node_id == number, table.c.kind == "run")
            query = query.where(queries.at(table.c.started, since, until)).order_by(table.c.started)
            found += _silent(node, [row.started for row in connection.execute(query)], since, until)
            window = queries.at(table.c.started, since, until)
            partly = queries.runs(
                connection, table.c.node_id == number, window, table.c.coverage.is_not(None)
            )
            found += [Gap(node, run.started, run.ended, text) for run in partly for text in _uncovered(run)]
        return sorted(found, key=lambda gap: gap.start)


def last_change(store: Store, node: str, cluster: str | None = None) -> ActionRow | None:
    """Our last drain or resume of a node that was done."""
    with store.read() as connection:
        numbers = list(queries.node_numbers(connection, [node], cluster).values())
        done = _drains(connection, numbers)
        newest = [actions[0] for actions in done.values() if actions]
        return max(newest, key=lambda one: one.at, default=None)


@dataclass
class Peers:
    """How other nodes judged the same check near a time: nodes where it passed, nodes with the fault."""

    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def peers(
    store: Store,
    cluster: str,
    check: str,
    device: str,
    start: int,
    end: int,
    but: str,
    near: Sequence[str] = (),
    most: int = 256,
) -> Peers:
    """Ask up to `most` other nodes of the cluster, `near` ones first, how a check went between two times."""
    found = Peers()
    run, node = schema.runs, schema.nodes
    with store.read() as connection:
        query = select(node.c.id).where(node.c.cluster == cluster, node.c.name != but)
        first = [name for name in near if name != but][:most]
        query = query.order_by(node.c.name.not_in(first), node.c.id)
        numbers = connection.scalars(query.limit(most)).all()
        rows: list[RunRow] = []
        for some in queries.chunks(numbers):
            rows += queries.runs(connection, run.c.node_id.in_(some), queries.at(run.c.started, start, end))
        queries.with_findings(connection, rows)
    failed = {row.node for row in rows if _has(row.findings, check, device)}
    found.failed = sorted(failed)
    found.passed = sorted({row.node for row in rows if check in row.passed} - failed)
    return found


@dataclass
class Elsewhere:
    """Other jobs on which a node had the same fault on the same device: their ids and users."""

    jobs: set[int] = field(default_factory=set)
    users: set[str] = field(default_factory=set)


def same_fault_in_other_jobs(
    store: Store, cluster: str, node: str, fault: str, device: str, job_id: int, since: int, until: int
) -> Elsewhere:
    """Which other jobs saw a fault on this device of this node between `since` and `until`."""
    found = Elsewhere()
    table = schema.allocations
    with store.read() as connection:
        for number in queries.node_numbers(connection, [node], cluster).values():
            seen = queries.findings(
                connection, nodes=[number], fault=fault, device=device, since=since, until=until
            )
            runs = [finding.run for finding in seen if finding.status in (FAIL, TIMEOUT)]
            for some in queries.chunks(runs):
                # By node, which has an index: the runs alone would mean a look at every allocation on record.
                on_node = table.c.node_id == number
                where = (on_node, table.c.epilog_run.in_(some), table.c.job_id != job_id)
                for other in queries.allocations(connection, *where):
                    found.jobs.add(other.job_id)
                    found.users.add(other.user or str(other.uid))
    return found


def counts(store: Store) -> dict[str, int]:
    """How many runs, findings and set-aside files are on record."""
    with store.read() as connection:
        tables = (schema.runs, schema.findings, schema.actions, schema.set_aside)
        return {
            table.name: connection.scalar(select(func.count()).select_from(table)) or 0 for table in tables
        }


def _numbers(
    connection: Connection, names: Iterable[str] | None, cluster: str | None
) -> dict[tuple[str, str], int]:
    if names is not None:
        return queries.node_numbers(connection, names, cluster)
    node = schema.nodes
    query = select(node.c.cluster, node.c.name, node.c.id)
    if cluster is not None:
        query = query.where(node.c.cluster == cluster)
    return {(row.cluster, row.name): row.id for row in connection.execute(query)}


def _drains(connection: Connection, nodes: Sequence[int]) -> dict[int, list[ActionRow]]:
    """Drains and resumes that were done, newest first, by node number."""
    found: dict[int, list[ActionRow]] = {}
    for some in queries.chunks(nodes):
        for action in queries.actions(connection, nodes=some, names=("drain", "resume"), outcome="done"):
            found.setdefault(action.node_id, []).append(action)
    return found


def _state(
    key: tuple[str, str], last: RunRow | None, done: list[ActionRow], events: list[FindingRow]
) -> NodeState:
    """A node's state from its last run, what was done (newest first) and its drain-tier events."""
    state = NodeState(*key, last)
    state.drained_by = _standing(done)
    if last is None:
        return state
    resumed = max((action.at for action in done if action.action == "resume"), default=0)
    since = max(_booted(last), resumed)
    open_now = [one for one in last.findings if one.status in (FAIL, TIMEOUT, WARN)]
    # Nothing has proven the events of this boot gone that came after the last resume.
    open_now += [one for one in events if one.at >= since]
    state.open_faults = list({(one.fault, one.device): one for one in reversed(open_now)}.values())[::-1]
    return state


def _standing(done: list[ActionRow]) -> ActionRow | None:
    """The drain that stands (newest first); one that found the node drained already wrote nothing."""
    drains = list(takewhile(lambda action: action.action == "drain", done))
    wrote = (one for one in drains if not one.changed_nothing)
    return next(wrote, next(iter(drains), None))


def _booted(last: RunRow) -> int:
    """When the node was booted; without an uptime on record, a day before its last run."""
    return last.started - (round(last.uptime_s * 1000) if last.uptime_s else 86_400_000)


def _events(
    connection: Connection, nodes: Sequence[int], last: dict[int, RunRow]
) -> dict[int, list[FindingRow]]:
    """Drain-tier events of nodes since they were booted, newest first, by node number."""
    found: dict[int, list[FindingRow]] = {}
    for some in queries.chunks([number for number in nodes if number in last]):
        since = min(_booted(last[number]) for number in some)
        for one in queries.findings(connection, nodes=some, since=since, events=True):
            if one.tier in DRAIN_TIERS and one.status in (FAIL, TIMEOUT):
                found.setdefault(one.node_id, []).append(one)
    return found


def _silent(node: str, times: list[int], since: int, until: int) -> list[Gap]:
    edges = [since, *times, until]
    return [
        Gap(node, one, other, "no run on record")
        for one, other in pairwise(edges)
        if other - one > SILENCE_MS
    ]


def _uncovered(run: RunRow) -> list[str]:
    return [f"{source}: {text}" for source, text in run.coverage.items()]


def _has(findings: Iterable[FindingRow], check: str, device: str) -> bool:
    return any(
        one.check == check and one.device == device and one.status in (FAIL, TIMEOUT) for one in findings
    )
