"""Read and write the members of incidents, within the caller's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, bindparam, delete, or_, select, update

from slurm_guard.store import queries, schema
from slurm_guard.store.incident_model import COLLECTOR_SILENT, SHARED, SILENT, Member
from slurm_guard.store.schema_incidents import incident_members

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import ColumnElement, Connection, Row

_table, _nodes = incident_members, schema.nodes
_PLAIN = tuple(column.name for column in _table.columns if column.name not in ("event", "excused"))
_WATCHED = (SILENT, COLLECTOR_SILENT)


def going(connection: Connection, nodes: Iterable[int]) -> dict[int, list[Member]]:
    """The open members of some nodes (by number) that follow the node's runs."""
    found: dict[int, list[Member]] = {}
    for some in queries.chunks(list(nodes)):
        where = (_table.c.node_id.in_(some), _table.c.ended.is_(None), _table.c.fault.not_in(_WATCHED))
        for one in _members(connection, *where):
            found.setdefault(one.node_id, []).append(one)
    return found


def since(connection: Connection, node: int, at: int) -> list[Member]:
    """Members of a node that follow its runs and were open at a time or later."""
    lasting = or_(_table.c.ended.is_(None), _table.c.ended >= at)
    return list(_members(connection, _table.c.node_id == node, lasting, _table.c.fault.not_in(_WATCHED)))


def watched(connection: Connection, fault: str) -> list[Member]:
    """Open members of a fault that is looked at by the clock."""
    return list(_members(connection, _table.c.fault == fault, _table.c.ended.is_(None)))


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
    """Write members; new ones get their number."""
    old = []
    for one in members:
        row = _values(one)
        if one.id:
            old.append({**row, "b_id": one.id})
            continue
        key = connection.execute(_table.insert().values(row)).inserted_primary_key
        one.id = int(key[0]) if key is not None else 0
    if old:
        connection.execute(update(_table).where(_table.c.id == bindparam("b_id")), old)


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


def _values(one: Member) -> dict[str, Any]:
    row = {name: getattr(one, name) for name in _PLAIN if name != "id"}
    return {**row, "event": int(one.event), "excused": int(one.excused)}
