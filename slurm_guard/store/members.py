"""Read and write the members of incidents, within the caller's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, delete, func, or_, select, update

from slurm_guard.store import queries, schema
from slurm_guard.store.incident_model import COLLECTOR_SILENT, SHARED, SILENT, Member
from slurm_guard.store.schema_incidents import incident_members

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import ColumnElement, Connection, Row

_table, _nodes = incident_members, schema.nodes
_COLUMNS = tuple(column.name for column in _table.columns)
_PLAIN = tuple(name for name in _COLUMNS if name not in ("event", "excused"))
_VERB = "INSERT OR REPLACE INTO incident_members"
_SAVE = f"{_VERB} ({', '.join(_COLUMNS)}) VALUES ({','.join('?' * len(_COLUMNS))})"
_WATCHED = (SILENT, COLLECTOR_SILENT)


def lasting(connection: Connection, nodes: Iterable[int], at: int) -> dict[int, list[Member]]:
    """Members of some nodes (by number) that follow the nodes' runs and were open at a time or later."""
    found: dict[int, list[Member]] = {}
    for some in queries.chunks(list(nodes)):
        lately = or_(_table.c.ended.is_(None), _table.c.ended >= at)
        for one in _members(connection, _table.c.node_id.in_(some), lately, _table.c.fault.not_in(_WATCHED)):
            found.setdefault(one.node_id, []).append(one)
    return found


def of_no_cluster(connection: Connection, at: int) -> set[int]:
    """Nodes of no cluster (by number) of which anything was open at a time or later."""
    lasting = or_(_table.c.ended.is_(None), _table.c.ended >= at)
    query = select(_table.c.node_id).distinct().where(_table.c.cluster == "", _table.c.node_id > 0, lasting)
    return set(connection.scalars(query))


def watched(connection: Connection, fault: str) -> list[Member]:
    """Open members of a fault that is looked at by the clock."""
    return list(_members(connection, _table.c.fault == fault, _table.c.ended.is_(None)))


def is_known(connection: Connection, one: Member) -> bool:
    """True if the same fault of the same node began at that time already, also where it is over."""
    same = (
        _table.c.node_id == one.node_id,
        _table.c.fault == one.fault,
        _table.c.first_seen == one.first_seen,
    )
    return connection.scalar(select(_table.c.id).where(*same).limit(1)) is not None


def of_cause(
    connection: Connection, cluster: str, scope: str, fault: str, device: str, since: int
) -> list[Member]:
    """Members of one cause that were open at a time or later; `fault` is a check where it is shared."""
    where = [_table.c.cluster == cluster, or_(_table.c.ended.is_(None), _table.c.ended >= since)]
    if scope == SHARED:
        of_check = or_(
            _table.c.fault == fault, and_(_table.c.fault > f"{fault}.", _table.c.fault < f"{fault}/")
        )
        where += [_table.c.scope == SHARED, _table.c.device == device, of_check]
    else:
        where += [_table.c.scope != SHARED, _table.c.fault == fault]
    return list(_members(connection, *where))


def of_incidents(connection: Connection, ids: Sequence[int]) -> dict[int, list[Member]]:
    """The members of some incidents, the first to begin first."""
    found: dict[int, list[Member]] = {one: [] for one in ids}
    for some in queries.chunks(ids):
        for one in _members(connection, _table.c.incident.in_(some)):
            found[one.incident or 0].append(one)
    return found


def save(connection: Connection, members: Iterable[Member]) -> None:
    """Write members, all at once; new ones get their number."""
    some = list(members)
    new = [one for one in some if not one.id]
    if new:
        last = connection.scalar(select(func.max(_table.c.id))) or 0
        for number, one in enumerate(new, last + 1):
            one.id = number
    if some:
        connection.exec_driver_sql(_SAVE, [_values(one) for one in some])


def assign(connection: Connection, incident: int, members: Iterable[Member]) -> None:
    """Say to which incident members belong."""
    moved = [one for one in members if one.incident != incident]
    for some in queries.chunks(moved):
        ids = [one.id for one in some]
        connection.execute(update(_table).where(_table.c.id.in_(ids)).values(incident=incident))
    for one in moved:
        one.incident = incident


def remove(connection: Connection, members: Iterable[Member]) -> None:
    """Take members out that are none: later records of an earlier time told otherwise."""
    for some in queries.chunks([one.id for one in members]):
        connection.execute(delete(_table).where(_table.c.id.in_(some)))


def _members(connection: Connection, *where: ColumnElement[bool]) -> Iterable[Member]:
    query = select(_table, _nodes.c.name).outerjoin(_nodes, _nodes.c.id == _table.c.node_id)
    query = query.where(*where).order_by(_table.c.first_seen, _table.c.id)
    return [_member(row) for row in connection.execute(query)]


def _member(row: Row[Any]) -> Member:
    found = row._mapping
    return Member(
        node=found["name"] or "",
        event=bool(found["event"]),
        excused=bool(found["excused"]),
        **{name: found[name] for name in _PLAIN},
    )


def _values(one: Member) -> tuple[Any, ...]:
    return tuple(getattr(one, name) for name in _COLUMNS)
