"""Orders: drains and resumes that a collector has taken over, each carried out by one holder at a time."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, or_, select

from slurm_guard.store.schema import nodes
from slurm_guard.store.schema_incidents import orders

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import ColumnElement, Connection, Row

    from slurm_guard.store.engine import Store

WAITING, CLAIMED = "waiting", "claimed"
#: How an order ends.
ENDS = ("done", "held", "failed", "withdrawn")
#: A claim whose holder has said nothing for so long may be taken by another.
CLAIM_MS = 60_000
_PLAIN = (
    "id", "node_id", "kind", "fault", "device", "scope", "reason", "run", "made_at", "state", "holder",
    "changed_at", "why", "answer", "calls", "policy_hash",
)  # fmt: skip


@dataclass(slots=True)
class Order:
    """A drain or resume of one node; times in milliseconds. `run` is the id of the run that asked for it.

    `job_ids` and `users` are those of the allocations that were open. `calls` counts calls to Slurm.
    """

    cluster: str
    node: str
    kind: str
    fault: str
    device: str
    reason: str
    run: str
    made_at: int
    scope: str = ""
    job_ids: list[int] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    policy_hash: str = ""
    state: str = WAITING
    holder: str = ""
    changed_at: int = 0
    why: str = ""
    answer: str = ""
    calls: int = 0
    id: int = 0
    node_id: int = 0


def add(connection: Connection, order: Order) -> int:
    """Keep an order in the caller's transaction: the same run, kind, fault and device are the same order.

    Its number. Raises LookupError for a node that no record names.
    """
    where = nodes.c.cluster == order.cluster, nodes.c.name == order.node
    node = connection.scalar(select(nodes.c.id).where(*where))
    if node is None:
        raise LookupError(f"node {order.node} of cluster {order.cluster!r} is not on record")
    row = {name: getattr(order, name) for name in _PLAIN if name not in ("id", "node_id")}
    row.update(node_id=node, job_ids=json.dumps(order.job_ids), users=json.dumps(order.users))
    row["changed_at"] = order.changed_at or order.made_at
    same = [orders.c[name] == row[name] for name in ("run", "kind", "fault", "device")]
    known: int | None = connection.scalar(select(orders.c.id).where(*same))
    if known is not None:
        return known
    made = connection.execute(orders.insert().values(row)).inserted_primary_key
    return int(made[0]) if made is not None else 0


def is_known(connection: Connection, order: Order) -> bool:
    """True if there is an order of the same run, kind, fault and device, in whatever state."""
    same = [orders.c[name] == getattr(order, name) for name in ("run", "kind", "fault", "device")]
    return connection.scalar(select(orders.c.id).where(*same)) is not None


def replace_waiting(connection: Connection, order: Order) -> int:
    """Add an order in place of one for the same cause on the same node that still waits."""
    same = [orders.c[name] == getattr(order, name) for name in ("kind", "fault", "device")]
    query = select(orders.c.id).join(nodes, nodes.c.id == orders.c.node_id)
    query = query.where(nodes.c.cluster == order.cluster, nodes.c.name == order.node, *same)
    for number in connection.scalars(query.where(orders.c.state == WAITING)).all():
        withdraw(connection, number, order.made_at, f"asked for anew by run {order.run}")
    return add(connection, order)


def waiting(store: Store, now: int, most: int = 5000) -> list[Order]:
    """Orders that somebody has to carry out, oldest first: free ones, and claims of silent holders."""
    free = or_(
        orders.c.state == WAITING, and_(orders.c.state == CLAIMED, orders.c.changed_at < now - CLAIM_MS)
    )
    with store.read() as connection:
        return _listed(connection, free, most=most)


def of_nodes(store: Store, node_ids: Iterable[int], since: int) -> list[Order]:
    """Orders of some nodes (by number) that changed since a time, oldest first."""
    with store.read() as connection:
        return _listed(connection, orders.c.node_id.in_(list(node_ids)), orders.c.changed_at >= since)


def claim(store: Store, ids: Iterable[int], holder: str, now: int) -> list[int]:
    """Claim orders that are free, by compare and swap; the numbers of those that this holder has now."""
    swap = (
        "UPDATE orders SET state='claimed', holder=?, changed_at=? WHERE id=? AND "
        "(state='waiting' OR (state='claimed' AND (holder=? OR changed_at<?)))"
    )
    with store.write() as connection:
        return [
            one
            for one in ids
            if connection.exec_driver_sql(swap, (holder, now, one, holder, now - CLAIM_MS)).rowcount == 1
        ]


def free(store: Store, holder: str, now: int) -> int:
    """Let the claimed orders of all other holders wait again: for one who knows that they no longer act."""
    back = "UPDATE orders SET state='waiting', holder='', changed_at=? WHERE state='claimed' AND holder<>?"
    with store.write() as connection:
        return connection.exec_driver_sql(back, (now, holder)).rowcount


def give_back(store: Store, ids: Iterable[int], holder: str, now: int, why: str = "") -> int:
    """Let claimed orders wait again, as while the controller is silent; how many were this holder's."""
    back = (
        "UPDATE orders SET state='waiting', holder='', changed_at=?, why=? "
        "WHERE id=? AND state='claimed' AND holder=?"
    )
    with store.write() as connection:
        return sum(connection.exec_driver_sql(back, (now, why, one, holder)).rowcount for one in ids)


def finish_within(
    connection: Connection,
    number: int,
    holder: str,
    state: str,
    now: int,
    *,
    why: str = "",
    answer: str = "",
    calls: int = 0,
) -> bool:
    """End an order as `done`, `held`, `failed` or `withdrawn`; False if this holder no longer has it.

    In the caller's transaction, so that its action record is committed with it.
    """
    if state not in ENDS:
        raise ValueError(f"{state!r} is not how an order ends; expected one of {', '.join(ENDS)}")
    end = (
        "UPDATE orders SET state=?, changed_at=?, why=?, answer=?, calls=calls+? "
        "WHERE id=? AND state='claimed' AND holder=?"
    )
    return connection.exec_driver_sql(end, (state, now, why, answer, calls, number, holder)).rowcount == 1


def withdraw(connection: Connection, number: int, now: int, why: str) -> bool:
    """Withdraw an order that nobody has claimed, in the caller's transaction; False if it is too late."""
    end = "UPDATE orders SET state='withdrawn', changed_at=?, why=? WHERE id=? AND state='waiting'"
    return connection.exec_driver_sql(end, (now, why, number)).rowcount == 1


def _listed(connection: Connection, *where: ColumnElement[bool], most: int | None = None) -> list[Order]:
    query = select(orders, nodes.c.cluster, nodes.c.name).join(nodes, nodes.c.id == orders.c.node_id)
    query = query.where(*where).order_by(orders.c.made_at, orders.c.id).limit(most)
    return [_order(row) for row in connection.execute(query)]


def _order(row: Row[Any]) -> Order:
    found = row._mapping
    return Order(
        cluster=found["cluster"],
        node=found["name"],
        job_ids=json.loads(found["job_ids"]),
        users=json.loads(found["users"]),
        **{name: found[name] for name in _PLAIN},
    )
