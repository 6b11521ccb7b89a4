"""Requests that were seen: a nonce is accepted once, by whichever collector of a database sees it first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, select

from slurm_guard.store.schema_central import nonces

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from slurm_guard.store.engine import Store

_USE = "INSERT INTO nonces (nonce, node, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"


def use(store: Store, nonce: bytes, node: str, at: int) -> bool:
    """Take note of a nonce (16 bytes) in a transaction of its own; False if it was used before."""
    with store.write() as connection:
        return use_within(connection, nonce, node, at)


def use_within(connection: Connection, nonce: bytes, node: str, at: int) -> bool:
    """The same in the caller's transaction: used only if that is committed. `at` is in milliseconds."""
    return connection.exec_driver_sql(_USE, (nonce, node, at)).rowcount == 1


def is_used(connection: Connection, nonce: bytes) -> bool:
    """True if it is on record, which may change at any moment: only `use` decides."""
    return connection.scalar(select(nonces.c.nonce).where(nonces.c.nonce == nonce)) is not None


def forget(connection: Connection, before: int, most: int = 20_000) -> int:
    """Remove nonces from before a time (milliseconds), at most so many at once; how many went."""
    old = select(nonces.c.nonce).where(nonces.c.at < before).limit(most)
    return connection.execute(delete(nonces).where(nonces.c.nonce.in_(old))).rowcount
