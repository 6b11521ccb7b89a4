"""Which jobs an incident met, and what was found where something was done."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import and_, or_, select

from slurm_guard.store import queries, schema
from slurm_guard.store.incident_model import PLAN
from slurm_guard.store.schema_incidents import incident_members

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

    from slurm_guard.store.model import ActionRow


class Job(NamedTuple):
    """A job that ran on a node of an incident while that node's fault was seen; times in milliseconds."""

    node: str
    job_id: int
    user: str | None
    opened: int
    closed: int | None


def jobs(connection: Connection, ids: Sequence[int]) -> dict[int, list[Job]]:
    """The jobs of some incidents: allocations that were open at any time between first and last sighting.

    One without an end on record counts only in the boot that it began in: its epilog may be lost.
    """
    given, member, run, boot = schema.allocations, incident_members, schema.runs, schema.boots
    while_seen = or_(
        given.c.closed >= member.c.first_seen, and_(given.c.closed.is_(None), boot.c.boot_id == member.c.boot)
    )
    here = and_(given.c.node_id == member.c.node_id, given.c.opened <= member.c.last_seen)
    sure = or_(given.c.opened_sure == 1, given.c.opened >= member.c.first_seen)
    columns = (given.c.job_id, given.c.user, given.c.opened, given.c.closed, schema.nodes.c.name)
    query = select(member.c.incident, *columns).distinct().join(given, here)
    query = query.join(schema.nodes, schema.nodes.c.id == given.c.node_id)
    query = query.outerjoin(run, run.c.id == given.c.prolog_run).outerjoin(boot, boot.c.id == run.c.boot)
    of_nodes = member.c.fault.not_like(f"{PLAN}.%"), member.c.fault.not_like("guard.%")
    found: dict[int, list[Job]] = {one: [] for one in ids}
    for some in queries.chunks(ids):
        where = member.c.incident.in_(some), while_seen, sure, *of_nodes
        for row in connection.execute(query.where(*where).order_by(given.c.opened, given.c.job_id)):
            found[row.incident].append(Job(row.name, row.job_id, row.user, row.opened, row.closed))
    return found


class Origin(NamedTuple):
    """With which plan and which guard something was done."""

    plan_hash: str
    plan_state: str
    guard_version: str


def origins(connection: Connection, runs: Iterable[int]) -> dict[int, Origin]:
    """Plan and guard of some runs (by the number of their row)."""
    run, guard = schema.runs, schema.guards
    query = select(run.c.id, guard.c.plan_hash, guard.c.plan_state, guard.c.guard_version)
    query = query.join(guard, guard.c.id == run.c.guard)
    found: dict[int, Origin] = {}
    for some in queries.chunks(sorted(set(runs))):
        for row in connection.execute(query.where(run.c.id.in_(some))):
            found[row.id] = Origin(row.plan_hash, row.plan_state, row.guard_version)
    return found


def messages(connection: Connection, rows: Iterable[ActionRow]) -> dict[tuple[str, str, str], str]:
    """What the run that called for an action had found, by (its id, fault, device)."""
    run, finding = schema.runs, schema.findings
    asked = sorted({one.asked for one in rows if one.asked})
    query = select(run.c.run_id, finding.c.fault, finding.c.device, finding.c.message)
    query = query.join(finding, finding.c.run == run.c.id)
    found: dict[tuple[str, str, str], str] = {}
    for some in queries.chunks(asked):
        ids = [bytes.fromhex(one) for one in some]
        for row in connection.execute(query.where(run.c.run_id.in_(ids))):
            found[row.run_id.hex(), row.fault, row.device] = row.message
    return found
