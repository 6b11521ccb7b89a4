"""Leases: what only one program may do at a time. A dead holder's lease runs out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from slurm_guard.store.schema_incidents import leases

if TYPE_CHECKING:
    from slurm_guard.store.engine import Store

_TAKE = """
INSERT INTO leases (name, holder, until) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET holder=excluded.holder, until=excluded.until
WHERE leases.holder=excluded.holder OR leases.until<=?
"""


def take(store: Store, name: str, holder: str, seconds: float, now: int | None = None) -> bool:
    """Take a lease, or make one's own last longer; False while another holder has it.

    `now` is in milliseconds, the present by default. A lease further ahead than it may last was made before a
    clock was set back, and is free. Raises StoreError.
    """
    moment = round(time.time() * 1000) if now is None else now
    until = moment + round(seconds * 1000)
    with store.write() as connection:
        taken = connection.exec_driver_sql(_TAKE, (name, holder, until, moment)).rowcount == 1
        if taken:
            return True
        free = "DELETE FROM leases WHERE name=? AND until>?"
        connection.exec_driver_sql(free, (name, until + round(seconds * 1000)))
        return connection.exec_driver_sql(_TAKE, (name, holder, until, moment)).rowcount == 1


def give_up(store: Store, name: str, holder: str) -> None:
    """Give one's own lease back before it runs out; nothing happens to another holder's."""
    with store.write() as connection:
        connection.execute(leases.delete().where(leases.c.name == name, leases.c.holder == holder))
