"""Incidents on record: what they are made of, what people said of them, how far records were looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, func, inspect, or_, select, update

from slurm_guard.core.errors import NotFoundError
from slurm_guard.store import members, queries, schema
from slurm_guard.store.incident_model import BUDGET, OPEN, PLAN, RESOLVED, SHARED, Incident
from slurm_guard.store.schema_incidents import (
    incident_cursors,
    incident_ends,
    incident_members,
    incident_words,
    incidents,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import ColumnElement, Connection

    from slurm_guard.store.engine import Store

_CURSOR = "runs"
_MOVE = """
INSERT INTO incident_cursors (name, at) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET at=excluded.at
"""
_PLAIN = tuple(column.name for column in incidents.columns)
#: An incident of the same cause within this is what a new one comes back from.
RELAPSE_MS = 30 * 86_400_000


def exist(connection: Connection) -> bool:
    """False for a store that was made by an older slurm_guard and is open for reading only."""
    return bool(inspect(connection).has_table(incidents.name))


def cursor(connection: Connection) -> tuple[int, int]:
    """The number of the last run that was looked at, and that of the last one there is."""
    seen = select(incident_cursors.c.at).where(incident_cursors.c.name == _CURSOR)
    last = connection.scalar(select(func.max(schema.runs.c.id)))
    return connection.scalar(seen) or 0, last or 0


def move_cursor(connection: Connection, number: int) -> None:
    """Say that all runs up to a number were looked at, in the caller's transaction."""
    connection.exec_driver_sql(_MOVE, (_CURSOR, number))


def save(connection: Connection, one: Incident) -> None:
    """Write an incident without its members; a new one gets its number."""
    row = {name: getattr(one, name) for name in _PLAIN if name != "id"}
    if one.id:
        connection.execute(update(incidents).where(incidents.c.id == one.id).values(row))
        return
    key = connection.execute(incidents.insert().values(row)).inserted_primary_key
    one.id = int(key[0]) if key is not None else 0


def remove(connection: Connection, number: int) -> None:
    """Take out an incident that no record supports any more, with what was said of it."""
    connection.execute(incident_words.delete().where(incident_words.c.incident == number))
    connection.execute(incidents.delete().where(incidents.c.id == number))


def seen_again(connection: Connection, last_seen: dict[int, int]) -> None:
    """Note when incidents (by number) were seen last, where that is later than is known."""
    again = "UPDATE incidents SET last_seen=max(last_seen, ?) WHERE id=?"
    rows = [(at, number) for number, at in last_seen.items()]
    if rows:
        connection.exec_driver_sql(again, rows)


def by_id(connection: Connection, ids: Iterable[int]) -> dict[int, Incident]:
    """Incidents by their numbers, without members; unknown numbers are left out."""
    found: dict[int, Incident] = {}
    for some in queries.chunks(list(ids)):
        for one in _incidents(connection, incidents.c.id.in_(some)):
            found[one.id] = one
    return found


def listed(
    store: Store,
    *,
    states: Sequence[str] | None = None,
    since: int | None = None,
    nodes: Sequence[str] | None = None,
    cluster: str | None = None,
) -> list[Incident]:
    """Incidents with their members, those seen last first; of some states, of a time, on some nodes."""
    with store.read() as connection:
        if not exist(connection):
            return []
        where: list[ColumnElement[bool]] = [incidents.c.part_of.is_(None)]
        if states is not None:
            where.append(incidents.c.state.in_(states))
        if since is not None:
            where.append(or_(incidents.c.last_seen >= since, incidents.c.resolved_at >= since))
        if cluster is not None:
            where.append(incidents.c.cluster == cluster)
        found = _incidents(connection, *where)
        if nodes is not None:
            numbers = list(queries.node_numbers(connection, nodes, cluster).values())
            on_nodes = _on(connection, numbers)
            found = [one for one in found if one.id in on_nodes]
        _with_members(connection, found)
        return found


def load(store: Store, number: int) -> Incident:
    """One incident with its members. Raises NotFoundError."""
    with store.read() as connection:
        found = by_id(connection, [number]) if exist(connection) else {}
        if number not in found:
            raise NotFoundError(f"incident {number} is not on record; see `sguard incidents --state all`")
        _with_members(connection, [found[number]])
        return found[number]


def of_nodes(
    store: Store, nodes: Sequence[str], cluster: str | None, since: int, until: int, *, seen: bool = False
) -> list[Incident]:
    """Incidents with a member on some nodes that was open within [since, until], the first to begin first.

    `seen`: only faults of the nodes' own checks, and only those that were seen in that time.
    """
    member = incident_members
    lasting = or_(member.c.ended.is_(None), member.c.ended >= since)
    where = [member.c.incident.is_not(None), member.c.first_seen <= until, lasting]
    if seen:
        own = [member.c.fault.not_like(f"{name}.%") for name in (BUDGET, PLAN, "guard")]
        where += [member.c.last_seen >= since, *own]
    with store.read() as connection:
        if not exist(connection):
            return []
        ids: set[int | None] = set()
        for some in queries.chunks(list(queries.node_numbers(connection, nodes, cluster).values())):
            query = select(member.c.incident).where(member.c.node_id.in_(some), *where)
            ids.update(connection.scalars(query))
        found = by_id(connection, [one for one in ids if one]).values()
        ordered = sorted(found, key=lambda one: (one.first_seen, one.id))
        _with_members(connection, ordered)
        return ordered


def earlier(store: Store, one: Incident) -> int | None:
    """The incident that this one comes back from: the last of its cause that was over when this one began.

    Of a shared cause, any; else one with the same fault on one of the same nodes.
    """
    member = incident_members
    where = [
        incidents.c.cluster == one.cluster,
        incidents.c.id != one.id,
        incidents.c.part_of.is_(None),
        incidents.c.resolved_at <= one.first_seen,
        incidents.c.resolved_at >= one.first_seen - RELAPSE_MS,
    ]
    with store.read() as connection:
        if one.scope == SHARED:
            query = select(incidents.c.id).where(*where, incidents.c.cause == one.cause)
        else:
            nodes = list({each.node_id for each in one.members})[:500]
            of_nodes = and_(member.c.node_id.in_(nodes), member.c.fault == one.fault)
            query = select(incidents.c.id).join(member, member.c.incident == incidents.c.id)
            query = query.where(*where, of_nodes)
        found: int | None = connection.scalar(query.order_by(incidents.c.first_seen.desc()).limit(1))
        return found


def words(store: Store, number: int) -> list[dict[str, Any]]:
    """What people said of an incident, oldest first: `at`, `what`, `by`, `text`."""
    table = incident_words
    query = select(table.c.at, table.c.what, table.c.by, table.c.text).where(table.c.incident == number)
    with store.read() as connection:
        return [dict(row._mapping) for row in connection.execute(query.order_by(table.c.id))]


def spoken(store: Store, since: int | None = None, until: int | None = None) -> list[dict[str, Any]]:
    """What people said of any incident in a time, oldest first: `incident`, `at`, `what`, `by`, `text`."""
    table = incident_words
    query = select(table).where(queries.at(table.c.at, since, until)).order_by(table.c.at, table.c.id)
    with store.read() as connection:
        if not exist(connection):
            return []
        return [dict(row._mapping) for row in connection.execute(query)]


def acknowledge(store: Store, number: int, by: str, text: str, now: int) -> Incident:
    """Somebody looks after an open incident. Raises NotFoundError, and ValueError for one that is over."""
    with store.write() as connection:
        one = _found(connection, number)
        if one.state == RESOLVED:
            raise ValueError(f"incident {number} is resolved: there is nothing to acknowledge")
        one.state, one.acknowledged_by = "acknowledged", by
        one.acknowledged_at, one.acknowledged_text = now, text
        save(connection, one)
        _say(connection, number, now, "ack", by, text)
        return one


def close(store: Store, number: int, by: str, text: str, now: int) -> Incident:
    """Somebody calls an incident over: what is seen of it later is a new one.

    Raises NotFoundError, and ValueError for one that is over already.
    """
    why = f"closed by {by}: {text}" if text else f"closed by {by}"
    with store.write() as connection:
        one = _found(connection, number)
        if one.state == RESOLVED:
            raise ValueError(f"incident {number} is resolved already: {one.resolved_why}")
        open_ones = [
            each for each in members.of_incidents(connection, [number])[number] if each.ended is None
        ]
        for each in open_ones:
            each.ended, each.why = max(now, each.last_seen), why
            row = {"node_id": each.node_id, "fault": each.fault, "device": each.device, "at": each.ended}
            connection.execute(incident_ends.insert().values(row | {"by": by, "text": text}))
        members.save(connection, open_ones)
        one.state, one.resolved_why = RESOLVED, why
        one.resolved_at = max([now, *(each.ended or 0 for each in open_ones)])
        one.closed_by, one.closed_at, one.closed_why = by, now, text
        save(connection, one)
        _say(connection, number, now, "close", by, text)
        return one


def open_count(store: Store) -> int:
    """How many incidents wait for somebody."""
    waiting = and_(incidents.c.state == OPEN, incidents.c.part_of.is_(None))
    with store.read() as connection:
        if not exist(connection):
            return 0
        return connection.scalar(select(func.count()).select_from(incidents).where(waiting)) or 0


def _say(connection: Connection, number: int, at: int, what: str, by: str, text: str) -> None:
    row = {"incident": number, "at": at, "what": what, "by": by, "text": text}
    connection.execute(incident_words.insert().values(row))


def _found(connection: Connection, number: int) -> Incident:
    one = by_id(connection, [number]).get(number)
    if one is None:
        raise NotFoundError(f"incident {number} is not on record; see `sguard incidents --state all`")
    if one.part_of is not None:
        raise ValueError(f"incident {number} is part of incident {one.part_of} by now: give that number")
    return one


def _with_members(connection: Connection, found: Sequence[Incident]) -> None:
    by_incident = members.of_incidents(connection, [one.id for one in found])
    for one in found:
        one.members = by_incident[one.id]


def _on(connection: Connection, numbers: Sequence[int]) -> set[int]:
    """The incidents that have a member on one of these nodes."""
    member = incident_members
    found: set[int] = set()
    for some in queries.chunks(numbers):
        found.update(
            filter(None, connection.scalars(select(member.c.incident).where(member.c.node_id.in_(some))))
        )
    return found


def _incidents(connection: Connection, *where: ColumnElement[bool]) -> list[Incident]:
    order = incidents.c.last_seen.desc(), incidents.c.id.desc()
    query = select(incidents).where(*where).order_by(*order)
    return [Incident(**{name: row._mapping[name] for name in _PLAIN}) for row in connection.execute(query)]
