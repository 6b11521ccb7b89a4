"""The tables that only a collector fills: which requests were seen, and who sends. Times are milliseconds.

They lie beside the tables of `schema`; a store made without them gets them when a collector opens it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Column, Index, Integer, LargeBinary, Table, Text

from slurm_guard.store.schema import metadata

if TYPE_CHECKING:
    from slurm_guard.store.engine import Store

#: Requests that were accepted, each nonce once. Kept a little longer than a request may be old.
nonces = Table(
    "nonces",
    metadata,
    Column("nonce", LargeBinary(16), primary_key=True),
    Column("node", Text, nullable=False),
    Column("at", Integer, nullable=False),
    sqlite_with_rowid=False,
)
Index("nonces_at", nonces.c.at)

#: Every node that ever sent something: from where, when last, and what its newest record said of it.
#: `silent_since` is set by whoever finds it silent, and cleared when it is heard again.
senders = Table(
    "senders",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("node", Text, primary_key=True),
    Column("address", Text, nullable=False),
    Column("heard_at", Integer, nullable=False),
    Column("boot_id", Text, nullable=False),
    Column("machine_id", Text, nullable=False),
    Column("plan_hash", Text, nullable=False),
    Column("guard_version", Text, nullable=False),
    Column("silent_since", Integer),
    sqlite_with_rowid=False,
)
Index("senders_heard", senders.c.heard_at)

TABLES = (nonces, senders)


def ensure(store: Store) -> None:
    """Make these tables where they are missing; several programs may do so at once. Raises StoreError."""
    with store.write() as connection:
        metadata.create_all(connection, tables=list(TABLES))
