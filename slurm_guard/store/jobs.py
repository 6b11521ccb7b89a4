"""The runs of a job, kept apart: a requeued job keeps its id, and ids are recycled after months."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import func, select

from slurm_guard.store import queries, schema
from slurm_guard.store.model import CLEAN, Allocation, JobRun, NodeShare, RunRow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import ColumnElement, Connection

    from slurm_guard.store.engine import Store

#: A cause counts until so long after a job's end.
AFTER_MS = 5 * 60_000
#: What was done counts as done about a job until so long after its end.
ACTIONS_AFTER_MS = 30 * 60_000
#: Prologs of one run start within this of its end on another node (a node may be refused at once).
_SLACK_MS = 10 * 60_000
#: An allocation without an end is not joined by one that opens this much later.
_LONGEST_MS = 60 * 86_400_000


def job_runs(store: Store, job_id: int, cluster: str | None = None, uid: int | None = None) -> list[JobRun]:
    """Every run of a job that is on record, of that user if one is given, oldest first."""
    with store.read() as connection:
        table, nodes = schema.allocations, schema.nodes
        where: list[ColumnElement[bool]] = [table.c.job_id == job_id]
        if cluster is not None:
            where.append(nodes.c.cluster == cluster)
        if uid is not None:
            where.append(table.c.uid == uid)
        found = group(queries.allocations(connection, *where))
        return [_load(connection, run) for run in found]


def jobs_on(
    store: Store, node: str, since: int, until: int | None = None, cluster: str | None = None
) -> list[Allocation]:
    """Allocations of a node within [since, until], newest first."""
    with store.read() as connection:
        numbers = queries.node_numbers(connection, [node], cluster).values()
        found = [one for number in numbers for one in queries.overlapping(connection, number, since, until)]
        return sorted(found, key=lambda one: one.opened, reverse=True)


def group(allocations: Iterable[Allocation]) -> list[JobRun]:
    """Sort the allocations of one job id into runs, oldest first."""
    found: list[JobRun] = []
    for one in sorted(allocations, key=lambda each: (not each.opened_sure, each.opened)):
        if not one.opened_sure and _close_open_one(found, one):
            continue
        run = next((run for run in reversed(found) if _belongs(one, run)), None)
        if run is None:
            found.append(JobRun(one.cluster, one.job_id, one.restart, [NodeShare(one)]))
        else:
            run.shares.append(NodeShare(one))
    for run in found:
        run.restart = run.first.restart
        run.shares.sort(key=lambda share: share.node)
    return sorted(found, key=lambda run: run.opened)


def _close_open_one(found: list[JobRun], epilog: Allocation) -> bool:
    """Give an epilog without identity to the latest run on its node that has a prolog and no epilog."""
    open_ones = [
        share.allocation
        for run in found
        for share in run.shares
        if share.node == epilog.node
        and _same_owner(share.allocation, epilog)
        and share.allocation.epilog_run is None
    ]
    earlier = [one for one in open_ones if one.opened <= epilog.opened]
    if not earlier:
        return False
    last = max(earlier, key=lambda one: one.opened)
    last.epilog_run, last.closed = epilog.epilog_run, epilog.closed
    last.exit_code = last.exit_code or epilog.exit_code
    return True


def _same_owner(one: Allocation, other: Allocation) -> bool:
    same_user = None in (one.uid, other.uid) or one.uid == other.uid
    return one.cluster == other.cluster and same_user


def _belongs(one: Allocation, run: JobRun) -> bool:
    first = run.first
    if not _same_owner(one, first) or any(share.node == one.node for share in run.shares):
        return False
    if one.restart_sure and first.restart_sure and one.restart != first.restart:
        return False
    if one.start_time is not None and first.start_time is not None:
        return one.start_time == first.start_time
    if one.opened < first.opened - _SLACK_MS:
        return False
    end = run.closed
    return one.opened <= (first.opened + _LONGEST_MS if end is None else end + _SLACK_MS)


def _load(connection: Connection, run: JobRun) -> JobRun:
    ids = [one for share in run.shares for one in (share.allocation.prolog_run, share.allocation.epilog_run)]
    hooks = queries.runs_by_id(connection, ids)
    numbers = queries.node_numbers(connection, {share.node for share in run.shares}, run.cluster)
    for share in run.shares:
        _load_share(connection, share, run, hooks, numbers[run.cluster, share.node])
    return run


def _load_share(
    connection: Connection, share: NodeShare, run: JobRun, hooks: dict[int, RunRow], node: int
) -> None:
    own = share.allocation
    share.prolog = hooks.get(own.prolog_run or 0)
    share.epilog = hooks.get(own.epilog_run or 0)
    start, end = (own.opened if own.opened_sure else run.opened), own.closed
    table = schema.runs
    others = table.c.id.not_in([one for one in (own.prolog_run, own.epilog_run) if one])
    on_node = (table.c.node_id == node, table.c.kind == "run", others)
    within = queries.at(table.c.started, start, end)
    counted = select(table.c.status, func.count()).where(*on_node, within).group_by(table.c.status)
    share.between = dict(connection.execute(counted).tuples().all())
    not_clean = table.c.status.not_in(CLEAN)
    share.events = queries.runs(connection, *on_node, within, not_clean)
    if end is not None:
        after = queries.at(table.c.started, end + 1, end + AFTER_MS)
        share.after = queries.runs(connection, *on_node, after, not_clean)
        share.silence = queries.longest_silence(connection, node, start, end)
    queries.with_findings(connection, (*share.events, *share.after))
    queries.with_samples(connection, share.events)
    _load_actions(connection, share, node, start)
    share.neighbours = _neighbours(connection, share, node, start)


def _neighbours(connection: Connection, share: NodeShare, node: int, start: int) -> list[Allocation]:
    """Other jobs on the node at the same time. One that never ended there is over since the next boot."""
    own = share.allocation
    found = [
        one for one in queries.overlapping(connection, node, start, own.closed) if one.job_id != own.job_id
    ]
    boots = {run.boot_id for run in (share.prolog, share.epilog) if run is not None}
    doubtful = [one.prolog_run for one in found if one.closed is None and one.opened < start]
    if not boots or not doubtful:
        return found
    known = queries.boots_of(connection, doubtful)
    return [one for one in found if known.get(one.prolog_run or 0, "") in {"", *boots}]


def _load_actions(connection: Connection, share: NodeShare, node: int, start: int) -> None:
    """What was done on the node in the share's time, and which of it the share's own runs called for."""
    end = share.allocation.closed
    until = None if end is None else end + ACTIONS_AFTER_MS
    found = queries.actions(connection, nodes=[node], since=start, until=until)
    share.actions = found[::-1]
    for run in (share.prolog, share.epilog):
        if run is not None:
            run.answers = [one for one in share.actions if one.asked == run.run_id]
