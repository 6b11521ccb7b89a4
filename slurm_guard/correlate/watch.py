"""What no record can tell: nodes that send none though they are up, and a collector that fell silent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select, update

from slurm_guard.correlate import causes
from slurm_guard.correlate.regroup import regroup
from slurm_guard.store import members, queries, schema, senders
from slurm_guard.store.incident_model import COLLECTOR_SILENT, SHARED, SILENT, Member
from slurm_guard.store.schema_central import senders as table

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from sqlalchemy import Connection

    from slurm_guard.correlate.changes import Changes
    from slurm_guard.store import Store

#: The dead man's file of a collector, beside the store: touched every ten seconds while it can write records.
ALIVE_FILE = "collector.alive"
#: A node is silent after so long: three intervals of five minutes.
SILENT_MS = 15 * 60_000
#: A collector is silent when its file is so old.
COLLECTOR_SILENT_MS = 2 * 60_000


@dataclass(frozen=True, slots=True)
class Watched:
    """What is known besides the records.

    `up`: the nodes of `cluster` that are up in Slurm and have to send; None where Slurm was not asked, and
    then no node is found silent anew. `alive_at`: when the collector was alive (ms), None without one.
    """

    cluster: str = ""
    up: Collection[str] | None = None
    silent_after_ms: int = SILENT_MS
    alive_at: int | None = None

    @classmethod
    def beside(cls, store: Store) -> Watched:
        """What can be seen beside a store: the collector's file."""
        try:
            found = (store.path.parent / ALIVE_FILE).stat()
        except OSError:
            return cls()
        return cls(alive_at=math.floor(found.st_mtime * 1000))


def look(store: Store, now: int, watched: Watched, changes: Changes) -> None:
    """Open, keep and end the incidents of silence."""
    with store.read() as connection:
        begun, over = _plan(connection, now, watched)
    if not begun and not over and watched.up is None:
        return
    with store.write() as connection:
        if watched.up is not None:
            _mark(connection, now, watched)
        begun, over = _plan(connection, now, watched)
        members.save(connection, [*begun, *over])
        for one in (*begun, *over):
            regroup(connection, causes.key(one), one.first_seen, changes)


def _mark(connection: Connection, now: int, watched: Watched) -> None:
    """Say in the table of senders which nodes are silent though they are up."""
    up = set(watched.up or ())
    query = select(table.c.node, table.c.heard_at, table.c.silent_since).where(
        table.c.cluster == watched.cluster
    )
    rows = connection.execute(query).all()
    late = now - watched.silent_after_ms
    silent = [row.node for row in rows if row.node in up and row.heard_at < late]
    senders.mark_silent(connection, watched.cluster, silent, now)
    excused = [row.node for row in rows if row.node not in up and row.silent_since is not None]
    for some in queries.chunks(excused):
        of_these = update(table).where(table.c.cluster == watched.cluster, table.c.node.in_(some))
        connection.execute(of_these.values(silent_since=None))


def _plan(connection: Connection, now: int, watched: Watched) -> tuple[list[Member], list[Member]]:
    """Members that begin, and members that end, by the table of senders and the collector's file.

    What a person closed begins again only after a sign of life.
    """
    begun, over = _nodes(connection, now)
    collector = members.watched(connection, COLLECTOR_SILENT)
    if watched.alive_at is None:
        return begun, over
    if now - watched.alive_at > COLLECTOR_SILENT_MS:
        silent = _collector(watched.alive_at)
        is_new = not collector and not members.is_known(connection, silent)
        return [*begun, silent] if is_new else begun, over
    for one in collector:
        one.ended, one.why = max(watched.alive_at, one.last_seen), "the collector is alive again"
    return begun, [*over, *collector]


def _collector(alive_at: int) -> Member:
    said = (
        f"no sign of the collector since then ({ALIVE_FILE}): records wait on the nodes until it runs again"
    )
    return Member(0, "", "", COLLECTOR_SILENT, "", alive_at, alive_at, scope=SHARED, message=said)


def _nodes(connection: Connection, now: int) -> tuple[list[Member], list[Member]]:
    """Nodes that fell silent, and those that were heard again or have an excuse."""
    known = {one.node_id: one for one in members.watched(connection, SILENT)}
    rows = {row.id: row for row in connection.execute(_silent_senders())}
    new = [_silent(row) for number, row in rows.items() if number not in known]
    begun = [one for one in new if not members.is_known(connection, one)]
    over = [one for number, one in known.items() if number not in rows]
    heard = _heard(connection, [one.node_id for one in over])
    for one in over:
        at = heard.get(one.node_id, 0)
        one.ended, one.why = (at, "heard again") if at > one.last_seen else (now, "not up in Slurm any more")
    return begun, over


def _silent_senders() -> Any:
    node = schema.nodes
    same = (node.c.cluster == table.c.cluster) & (node.c.name == table.c.node)
    columns = (node.c.id, table.c.cluster, table.c.node, table.c.heard_at, table.c.silent_since)
    return select(*columns).join(node, same).where(table.c.silent_since.is_not(None))


def _silent(row: Any) -> Member:
    said = "up in Slurm, and sends no records: `sguard doctor` and `sguard ship` there say why"
    at = row.silent_since
    return Member(row.id, row.node, row.cluster, SILENT, "", at, at, message=said)


def _heard(connection: Connection, nodes: list[int]) -> dict[int, int]:
    """When nodes (by number) were heard last."""
    node, found = schema.nodes, {}
    same = (node.c.cluster == table.c.cluster) & (node.c.name == table.c.node)
    for some in queries.chunks(nodes):
        query = select(node.c.id, table.c.heard_at).join(table, same).where(node.c.id.in_(some))
        found.update({row.id: row.heard_at for row in connection.execute(query)})
    return found
