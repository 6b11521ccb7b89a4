"""What the records say of orders: whether their cause is still true, and what was done for it before."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from slurm_guard.store.engine import Store
    from slurm_guard.store.orders import Order


class Standing(NamedTuple):
    """An order's cause as the newest records have it.

    `boot` is the boot that it was asked for in, `boot_now` the newest one of its node; `is_gone`: a later
    healthcheck found the check good. `acted_at` (milliseconds) is when an earlier order for the same cause in
    the same boot was carried out, None if there was none; `is_anew`: since then the guard itself put the node
    back, or the fault was gone and came again.
    """

    boot: str
    boot_now: str
    is_gone: bool
    acted_at: int | None
    is_anew: bool


class Loss(NamedTuple):
    """A node that was taken out of service: when (milliseconds), with which jobs and users (uids) on it."""

    node: str
    at: int
    jobs: tuple[int, ...]
    users: tuple[int, ...]


_RUN = "SELECT r.id, r.started, b.boot_id FROM runs r JOIN boots b ON b.id=r.boot WHERE r.run_id=?"
_NEWEST = """
SELECT b.boot_id FROM runs r JOIN boots b ON b.id=r.boot
WHERE r.node_id=? AND r.kind='run' ORDER BY r.started DESC, r.id DESC LIMIT 1"""
_NEWEST_CHECK = """
SELECT r.id, c.names FROM runs r LEFT JOIN check_lists c ON c.id=r.passed
WHERE r.node_id=? AND r.kind='run' AND r.hook='healthcheck' ORDER BY r.started DESC, r.id DESC LIMIT 1"""
_DONE = """
SELECT run, changed_at FROM orders WHERE node_id=? AND kind=? AND fault=? AND device=? AND state='done'
AND id<>? ORDER BY changed_at DESC LIMIT 1"""
_RESUMED = """
SELECT 1 FROM actions a JOIN runs r ON r.id=a.run WHERE a.node_id=? AND a.action='resume'
AND a.outcome='done' AND a.at>=? AND r.user IS NULL LIMIT 1"""
_EVENT = "SELECT max(event) FROM findings WHERE run=? AND fault=? AND device=?"
_CLEAN = """
SELECT 1 FROM runs r JOIN check_lists c ON c.id=r.passed WHERE r.node_id=? AND r.kind='run'
AND r.hook='healthcheck' AND r.started>? AND r.started<? AND instr(' '||c.names||' ', ?) LIMIT 1"""
_ORDERED = """
SELECT n.name, o.changed_at, o.job_ids, o.users FROM orders o JOIN nodes n ON n.id=o.node_id
WHERE o.kind='drain' AND o.state='done' AND o.changed_at>=? AND n.cluster IN ('', ?)"""
_LOST = """
SELECT n.name, a.at, a.job_id, (SELECT uid FROM allocations l WHERE l.node_id=a.node_id
  AND l.job_id=a.job_id ORDER BY l.opened DESC LIMIT 1)
FROM actions a JOIN runs r ON r.id=a.run JOIN nodes n ON n.id=a.node_id
WHERE a.at>=? AND a.action IN ('drain', 'refuse') AND a.outcome='done' AND r.user IS NULL
AND r.hook<>'collector' AND n.cluster IN ('', ?)"""


def standings(store: Store, some: Iterable[Order]) -> dict[int, Standing]:
    """The standing of orders, by their number."""
    with store.read() as connection:
        return {order.id: _standing(connection, order) for order in some}


def losses(store: Store, cluster: str, since: int) -> list[Loss]:
    """Every node of a cluster that the guard took out since a time (milliseconds), one row for each time."""
    with store.read() as connection:
        ordered = connection.exec_driver_sql(_ORDERED, (since, cluster)).all()
        lost = connection.exec_driver_sql(_LOST, (since, cluster)).all()
    found = [
        Loss(name, at, tuple(json.loads(jobs)), tuple(int(uid) for uid in json.loads(users) if uid.isdigit()))
        for name, at, jobs, users in ordered
    ]
    for name, at, job, uid in lost:
        found.append(Loss(name, at, (job,) if job is not None else (), (uid,) if uid else ()))
    return found


def _standing(connection: Connection, order: Order) -> Standing:
    ask = connection.exec_driver_sql
    run, started, boot = ask(_RUN, (bytes.fromhex(order.run),)).first() or (0, order.made_at, "")
    boot_now = ask(_NEWEST, (order.node_id,)).scalar() or boot
    newest, names = ask(_NEWEST_CHECK, (order.node_id,)).first() or (run, "")
    check = order.fault.partition(".")[0]
    is_gone = newest != run and check in (names or "").split()
    acted = _acted(connection, order, boot)
    is_anew = acted is not None and _is_anew(connection, order, run, started, acted)
    return Standing(boot, boot_now, is_gone, acted, is_anew)


def _acted(connection: Connection, order: Order, boot: str) -> int | None:
    """When an order for this cause was carried out in this boot."""
    cause = order.node_id, order.kind, order.fault, order.device, order.id
    row = connection.exec_driver_sql(_DONE, cause).first()
    if row is None:
        return None
    run = connection.exec_driver_sql(_RUN, (bytes.fromhex(row.run),)).first()
    return int(row.changed_at) if run is not None and run.boot_id == boot else None


def _is_anew(connection: Connection, order: Order, run: int, started: int, since: int) -> bool:
    ask = connection.exec_driver_sql
    if ask(_RESUMED, (order.node_id, since)).first() is not None:
        return True
    event = ask(_EVENT, (run, order.fault, order.device)).scalar()
    if event is None:  # not seen by this run: an event of earlier that is still open
        return False
    check = f" {order.fault.partition('.')[0]} "
    return event == 1 or ask(_CLEAN, (order.node_id, since, started, check)).first() is not None
