"""Write records into the store: many in one transaction, each run_id once."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from slurm_guard.core.errors import RecordError
from slurm_guard.store.names import NameTable
from slurm_guard.store.record import Record
from slurm_guard.store.rows import Rows
from slurm_guard.store.statements import INSERTS, NOTE_ASIDE

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    from sqlalchemy import Connection

    from slurm_guard.store.engine import Store

Item = TypeVar("Item")
#: Records that are in memory at once. Few, so that they stay in the processor's cache: twice as fast.
_CHUNK = 200
#: What making the rows of a record may raise for its content.
_NO_ROW = (RecordError, ValueError, TypeError, AttributeError, OverflowError, RecursionError)


class Written(NamedTuple):
    """What became of some records, by their position; `rows` counts rows in all tables."""

    new: list[int]
    duplicates: list[int]
    refused: list[tuple[int, str]]
    rows: int


class Aside(NamedTuple):
    """A file that is not a record: where it was, what it was, why it was refused, where it lies now."""

    folder: str
    name: str
    digest: str
    size: int
    reason: str
    moved_to: str


class Writer:
    """Writes into one store; remembers the numbers of names between calls."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._names = NameTable()

    def write(self, records: Iterable[Record | RecordError]) -> Written:
        """Write records in one transaction; when this returns, they are on disk.

        Records are taken while they are written, so an iterator need not hold them all. A record whose
        run_id is in the store is a duplicate; errors, records with other content under a known run_id, and
        those that no table can hold, are refused. Raises StoreError, and then nothing was written.
        """
        try:
            with self._store.write() as connection:
                return self.write_within(connection, records)
        except BaseException:
            self.forget()
            raise

    def write_within(self, connection: Connection, records: Iterable[Record | RecordError]) -> Written:
        """The same within a transaction of the caller, who calls `forget` if that is not committed."""
        return self._write(_driver(connection), records)

    def forget(self) -> None:
        """Forget the numbers of names: those given out in a transaction that failed are gone with it."""
        self._names = NameTable()

    def _write(self, connection: sqlite3.Connection, records: Iterable[Record | RecordError]) -> Written:
        self._names.connection = connection
        written = Written([], [], [], 0)
        (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM runs").fetchone()
        done = 0
        for chunk in batches(records, _CHUNK):
            rows = Rows()
            self._sort(chunk, done, last + len(written.new), rows, written)
            insert(connection, rows)
            written = written._replace(rows=written.rows + rows.count())
            done += len(chunk)
        return written

    def _sort(
        self, chunk: list[Record | RecordError], start: int, last: int, rows: Rows, written: Written
    ) -> None:
        """Make the rows of new records, and note what became of each; `start` is the first one's position."""
        known = _known(self._names.connection, [one.run_id for one in chunk if isinstance(one, Record)])
        for position, record in enumerate(chunk, start):
            if isinstance(record, RecordError):
                written.refused.append((position, str(record)))
                continue
            digest = known.get(record.run_id)
            if digest is not None:
                _file_again(written, position, same=digest == record.digest)
                continue
            try:
                rows.add_whole(record, last + 1, self._names)
            except _NO_ROW as error:
                written.refused.append((position, f"no table can hold it: {error}"[:300]))
                continue
            last += 1
            known[record.run_id] = record.digest
            written.new.append(position)

    def note_aside(self, files: Iterable[Aside], at: int) -> None:
        """Record files that were set aside, each (folder, name, content) once; `at` in milliseconds."""
        rows = [(None, at, *file) for file in files]
        if rows:
            with self._store.write() as connection:
                connection.exec_driver_sql(NOTE_ASIDE, rows)


def _file_again(written: Written, position: int, *, same: bool) -> None:
    if same:
        written.duplicates.append(position)
    else:
        written.refused.append((position, "another record with this run_id is in the store"))


def _driver(connection: Connection) -> sqlite3.Connection:
    """The driver's own connection, within SQLAlchemy's transaction: much faster for many small statements."""
    driver = connection.connection.driver_connection
    assert driver is not None
    return cast("sqlite3.Connection", driver)


def _known(connection: sqlite3.Connection, run_ids: list[bytes]) -> dict[bytes, int]:
    """The digests of those run_ids, at most a chunk, that are in the store."""
    marks = ",".join("?" * len(run_ids))
    sql = f"SELECT run_id, digest FROM runs WHERE run_id IN ({marks})"  # noqa: S608 - only question marks
    return dict(connection.execute(sql, run_ids).fetchall())


def insert(connection: sqlite3.Connection, rows: Rows) -> None:
    """Insert collected rows; the rows of allocations meet those that the other hook left."""
    for name, statement in INSERTS.items():
        some = getattr(rows, name)
        if some:
            connection.executemany(statement, some)


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Items in lists of at most `size`."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch


def ingest(store: Store, records: Iterable[Record], size: int = 2000) -> Written:
    """Write any number of records, `size` to a transaction; positions count over all of them."""
    writer = Writer(store)
    total, start = Written([], [], [], 0), 0
    for batch in batches(records, size):
        one = writer.write(batch)
        total.new.extend(position + start for position in one.new)
        total.duplicates.extend(position + start for position in one.duplicates)
        total.refused.extend((position + start, why) for position, why in one.refused)
        total = total._replace(rows=total.rows + one.rows)
        start += len(batch)
    return total
