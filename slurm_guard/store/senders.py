"""Which nodes send records, and when each was heard last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import select

from slurm_guard.store.schema_central import senders

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from slurm_guard.store.engine import Store
    from slurm_guard.store.record import Record

#: What a record does not say is kept as it was: a node that sends an empty list is heard all the same.
_HEARD = """
INSERT INTO senders (cluster, node, address, heard_at, boot_id, machine_id, plan_hash, guard_version)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (cluster, node) DO UPDATE SET
  address=excluded.address, heard_at=max(heard_at, excluded.heard_at), silent_since=NULL,
  boot_id=CASE excluded.boot_id WHEN '' THEN boot_id ELSE excluded.boot_id END,
  machine_id=CASE excluded.machine_id WHEN '' THEN machine_id ELSE excluded.machine_id END,
  plan_hash=CASE excluded.guard_version WHEN '' THEN plan_hash ELSE excluded.plan_hash END,
  guard_version=CASE excluded.guard_version WHEN '' THEN guard_version ELSE excluded.guard_version END
"""


class Heard(NamedTuple):
    """A node that sent something: from which address, when (milliseconds), and what it says of itself."""

    cluster: str
    node: str
    address: str
    at: int
    boot_id: str = ""
    machine_id: str = ""
    plan_hash: str = ""
    guard_version: str = ""


def of_records(cluster: str, node: str, address: str, at: int, records: Iterable[Record]) -> Heard:
    """What the newest of some records says of the node that sent them."""
    newest = max(records, key=lambda one: one.started, default=None)
    if newest is None:
        return Heard(cluster, node, address, at)
    machine, plan = newest.data.get("machine") or {}, newest.data.get("plan") or {}
    return Heard(
        cluster,
        node,
        address,
        at,
        boot_id=_text(machine.get("boot_id")),
        machine_id=_text(machine.get("machine_id")),
        plan_hash=_text(plan.get("hash")),
        guard_version=newest.data.get("guard_version") or "unknown",
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def note(connection: Connection, heard: Iterable[Heard]) -> None:
    """Keep who was heard, in the caller's transaction."""
    rows = [tuple(one) for one in heard]
    if rows:
        connection.exec_driver_sql(_HEARD, rows)


def mark_silent(connection: Connection, cluster: str, nodes: Iterable[str], at: int) -> None:
    """Set `silent_since` (milliseconds) of nodes that are not marked yet, in the caller's transaction."""
    mark = "UPDATE senders SET silent_since=? WHERE cluster=? AND node=? AND silent_since IS NULL"
    rows = [(at, cluster, node) for node in nodes]
    if rows:
        connection.exec_driver_sql(mark, rows)


def listed(store: Store, cluster: str | None = None) -> list[dict[str, Any]]:
    """Every sender, of one cluster or of all, by name: the columns of the table as keys."""
    query = select(senders).order_by(senders.c.cluster, senders.c.node)
    if cluster is not None:
        query = query.where(senders.c.cluster == cluster)
    with store.read() as connection:
        return [dict(row._mapping) for row in connection.execute(query)]
