"""Records that were pulled from a node, on their way into the store."""

from __future__ import annotations

import re
import threading
import time
from typing import TYPE_CHECKING

from slurm_guard.core.errors import RecordError
from slurm_guard.remote.pull import Committed
from slurm_guard.store import senders
from slurm_guard.store.record import parse
from slurm_guard.store.writer import Writer

if TYPE_CHECKING:
    from slurm_guard.remote.target import Target
    from slurm_guard.store import Store
    from slurm_guard.store.record import Record

_RUN_ID = re.compile(rb'"run_id" ?: ?"([0-9a-fA-F]{32})"')


class Into:
    """Commits what nodes send, from any thread, one batch at a time. `cluster` is this host's or empty."""

    def __init__(self, store: Store, cluster: str) -> None:
        self._store = store
        self._cluster = cluster
        self._writer = Writer(store)
        self._turn = threading.Lock()

    def commit(self, target: Target, lines: list[bytes]) -> Committed:
        """Commit a node's records; when this returns, they are on disk. Raises StoreError, and nothing is.

        A node speaks only for itself: records of others are neither taken nor refused, they stay there.
        """
        done = Committed([], 0, [], [])
        good: list[tuple[int, str, Record]] = []
        for number, line in enumerate(lines, start=1):
            self._sort(target, number, line, good, done)
        with self._turn:
            refused, known = self._write(target, [record for _, _, record in good])
        for position, (number, run_id, _) in enumerate(good):
            if position in refused:
                done.refused.append((number, run_id, refused[position]))
            else:
                done.acknowledged.append(run_id)
        return done._replace(known=known)

    def _sort(
        self, target: Target, number: int, line: bytes, good: list[tuple[int, str, Record]], done: Committed
    ) -> None:
        try:
            record = parse(line)
        except RecordError as error:
            named = _RUN_ID.search(line)
            done.refused.append((number, named[1].decode() if named else None, str(error)))
            return
        node, cluster = record.data["node"], record.data.get("cluster") or ""
        if node != target.node:
            done.foreign.append(f"node {node:.60}")
        elif cluster and self._cluster and cluster != self._cluster:
            done.foreign.append(f"cluster {cluster:.60}")
        else:
            good.append((number, record.data["run_id"], record))

    def _write(self, target: Target, records: list[Record]) -> tuple[dict[int, str], int]:
        """Refused positions with why, and how many were known."""
        at = round(time.time() * 1000)
        try:
            with self._store.write() as connection:
                written = self._writer.write_within(connection, records)
                if records:
                    cluster = records[-1].data.get("cluster") or self._cluster
                    heard = senders.of_records(cluster, target.node, target.address, at, records)
                    senders.note(connection, [heard])
        except BaseException:
            self._writer.forget()
            raise
        return dict(written.refused), len(written.duplicates)
