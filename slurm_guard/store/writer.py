"""Write records into the store: many in one transaction, each run_id once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Table, func, select

from slurm_guard.core.errors import RecordError
from slurm_guard.store import schema
from slurm_guard.store.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Connection

    from slurm_guard.store.engine import Store
    from slurm_guard.store.record import Record

_MOST_NAMES = 200_000
_PARAMETERS = 500


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

    def write(self, records: Sequence[Record]) -> Written:
        """Write records in one transaction; when this returns, they are on disk.

        A record whose run_id is in the store is a duplicate; one with other content under a known run_id,
        and one that no table can hold, is refused. Raises StoreError, and then nothing was written.
        """
        try:
            with self._store.write() as connection:
                self._names.connection = connection
                return self._write(connection, records)
        except BaseException:
            # Numbers that were given out in this transaction are gone with it.
            self._names = NameTable()
            raise

    def _write(self, connection: Connection, records: Sequence[Record]) -> Written:
        known = _known(connection, [record.run_id for record in records])
        run = connection.scalar(select(func.coalesce(func.max(schema.runs.c.id), 0))) or 0
        written = Written([], [], [], 0)
        rows = Rows()
        for position, record in enumerate(records):
            digest = known.get(record.run_id)
            if digest is not None:
                _file_again(written, position, same=digest == record.digest)
                continue
            try:
                _add_whole(rows, record, run + 1, self._names)
            except (RecordError, ValueError, OverflowError, RecursionError) as error:
                written.refused.append((position, f"no table can hold it: {error}"[:300]))
                continue
            run += 1
            known[record.run_id] = record.digest
            written.new.append(position)
        insert(connection, rows)
        return written._replace(rows=rows.count())

    def note_aside(self, files: Iterable[Aside], at: int) -> None:
        """Record files that were set aside, each (folder, name, content) once; `at` in milliseconds."""
        rows = [(None, at, *file) for file in files]
        if rows:
            with self._store.write() as connection:
                connection.exec_driver_sql(_statement(schema.set_aside, "INSERT OR IGNORE"), rows)


def _file_again(written: Written, position: int, *, same: bool) -> None:
    if same:
        written.duplicates.append(position)
    else:
        written.refused.append((position, "another record with this run_id is in the store"))


def _add_whole(rows: Rows, record: Record, run: int, names: NameTable) -> None:
    """Add a record's rows, all of them or none."""
    tables = list(rows.__dict__.values())
    before = [len(table) for table in tables]
    try:
        rows.add(record, run, names)
    except BaseException:
        for table, length in zip(tables, before, strict=True):
            del table[length:]
        raise


def _known(connection: Connection, run_ids: list[bytes]) -> dict[bytes, int]:
    """The digests of those run_ids that are in the store."""
    found: dict[bytes, int] = {}
    for start in range(0, len(run_ids), _PARAMETERS):
        some = tuple(run_ids[start : start + _PARAMETERS])
        marks = ",".join("?" * len(some))
        sql = f"SELECT run_id, digest FROM runs WHERE run_id IN ({marks})"  # noqa: S608 - only question marks
        found.update((row[0], row[1]) for row in connection.exec_driver_sql(sql, some))
    return found


def insert(connection: Connection, rows: Rows) -> None:
    """Insert collected rows; the rows of allocations meet those that the other hook left."""
    for table in (schema.runs, schema.results, schema.findings, schema.actions, schema.node_samples):
        some = getattr(rows, table.name)
        if some:
            connection.exec_driver_sql(_statement(table), some)
    # A prolog's word counts more than an epilog's, whichever is ingested first.
    if rows.opened:
        connection.exec_driver_sql(_merging("excluded.{0}", "allocations.{0}"), rows.opened)
    if rows.closed:
        connection.exec_driver_sql(_merging("allocations.{0}", "excluded.{0}"), rows.closed)


def _statement(table: Table, verb: str = "INSERT") -> str:
    columns = [f'"{name}"' for name in table.columns.keys()]  # noqa: SIM118 - not a mapping
    return f"{verb} INTO {table.name} ({','.join(columns)}) VALUES ({','.join('?' * len(columns))})"


def _merging(first: str, second: str) -> str:
    key = ("job_id", "node_id", "opened")
    sets = []
    for name in schema.allocations.columns.keys():  # noqa: SIM118 - a column collection, not a mapping
        if name in ("restart_sure", "opened_sure"):
            sets.append(f"{name}=max(excluded.{name}, allocations.{name})")
        elif name != "id" and name not in key:
            sets.append(f'"{name}"=coalesce({first.format(name)}, {second.format(name)})')
    return f"{_statement(schema.allocations)} ON CONFLICT ({','.join(key)}) DO UPDATE SET {','.join(sets)}"


class NameTable:
    """Numbers of what is kept once, remembered; made in the current transaction where they are new."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self._numbers: dict[tuple[str, tuple[Any, ...]], int] = {}

    def number(self, table: str, key: tuple[Any, ...]) -> int:
        """The number of the row of `table` with these values in its columns after `id`."""
        known = self._numbers.get((table, key))
        return self._look_up(table, key) if known is None else known

    def _look_up(self, name: str, key: tuple[Any, ...]) -> int:
        assert self.connection is not None
        table = schema.metadata.tables[name]
        columns = list(table.columns)[1:]
        wanted = [column == value for column, value in zip(columns, key, strict=True)]
        found = self.connection.scalar(select(table.c.id).where(*wanted))
        if found is None:
            values = {column.name: value for column, value in zip(columns, key, strict=True)}
            made = self.connection.execute(table.insert().values(values)).inserted_primary_key
            assert made is not None
            found = made[0]
        if len(self._numbers) >= _MOST_NAMES:
            self._numbers.clear()
        self._numbers[name, key] = int(found)
        return int(found)


def batches(records: Iterable[Record], size: int) -> Iterator[list[Record]]:
    """Records in lists of at most `size`."""
    batch: list[Record] = []
    for record in records:
        batch.append(record)
        if len(batch) >= size:
            yield batch
            batch = []
    if batch:
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
