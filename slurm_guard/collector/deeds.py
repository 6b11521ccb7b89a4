"""What became of orders, on record: the order's end and its action record are one transaction."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from slurm_guard import __version__
from slurm_guard.engine import clock
from slurm_guard.engine import record as records
from slurm_guard.store import orders as table
from slurm_guard.store import schema
from slurm_guard.store.record import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from slurm_guard.store import Store
    from slurm_guard.store.orders import Order
    from slurm_guard.store.writer import Writer

BY = "collector"


@dataclass(slots=True)
class Deed:
    """How an order ended: `state` is the order's last one; `withdrawn`: it was carried out and taken back.

    `calls` counts calls of Slurm; those for many nodes at once are counted with the first of them. `written`:
    whether the node was changed; None where nobody can tell.
    """

    order: Order
    state: str
    why: str
    limit: str = ""
    answer: str = ""
    calls: int = 0
    written: bool | None = None
    withdrawn: bool = False


def record(store: Store, writer: Writer, holder: str, deeds: Sequence[Deed]) -> int:
    """Put deeds on record; how many were still this holder's. Raises StoreError, and then none is."""
    if not deeds:
        return 0
    now, made = round(time.time() * 1000), []
    try:
        with store.write() as connection:
            for deed in deeds:
                order = deed.order
                more: dict[str, Any] = {"why": deed.why, "answer": deed.answer[:500], "calls": deed.calls}
                if table.finish_within(connection, order.id, holder, deed.state, now, **more):
                    made.append(parse(_bytes_of(deed, _machine(connection, order))))
            refused = writer.write_within(connection, made).refused
            if refused:
                raise AssertionError(f"an action record of our own is none: {refused[0][1]}")
    except BaseException:
        writer.forget()
        raise
    return len(made)


def _machine(connection: Connection, order: Order) -> dict[str, str]:
    """The machine and boot that asked."""
    boot, runs = schema.boots, schema.runs
    query = select(boot.c.boot_id, boot.c.machine_id, boot.c.serial).join(runs, runs.c.boot == boot.c.id)
    row = connection.execute(query.where(runs.c.run_id == bytes.fromhex(order.run))).first()
    return dict(row._mapping) if row is not None else {}


def _bytes_of(deed: Deed, machine: dict[str, str]) -> bytes:
    """The action record; its id is the order's, so that it is one however often this is tried."""
    order = deed.order
    name = f"{order.id} {order.run} {order.made_at} {deed.state}"
    found: dict[str, Any] = {
        "schema": records.SCHEMA,
        "kind": "action",
        "run_id": hashlib.sha256(name.encode()).hexdigest()[:32],
        "cluster": order.cluster,
        "node": order.node,
        "machine": machine,
        "guard_version": __version__,
        "plan": {"hash": order.policy_hash, "state": "ok", "problem": ""},
        "parent": order.run,
        "started": clock.iso(),
        "by": BY,
        "actions": _actions(deed),
    }
    return json.dumps(found).encode()


def _actions(deed: Deed) -> list[dict[str, Any]]:
    """The drain, and its withdrawal if there was one."""
    order = deed.order
    cause = {"fault": order.fault, "device": order.device, "reason": order.reason}
    asked: dict[str, Any] = {"answer": deed.answer, "calls": deed.calls, "written": deed.written}
    limit = {"limit": deed.limit} if deed.limit else {}
    on_it = {name: ids for name, ids in (("jobs", order.job_ids), ("users", order.users)) if ids}
    if not deed.withdrawn:
        return [{**records.action(order.kind, cause, deed.state, deed.why, **asked), **limit, **on_it}]
    drain = records.action(order.kind, cause, "done", f"drained: {order.reason}", **asked)
    undone = records.action("resume", cause, "withdrawn", deed.why, calls=0, written=True)
    return [{**drain, **on_it}, {**undone, **limit}]
