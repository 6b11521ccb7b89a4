"""Open the store: create it where it is missing, check its version, turn every database error into ours."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sqlalchemy import create_engine, event, inspect, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from slurm_guard.core.errors import StoreError
from slurm_guard.store import schema, schema_central, schema_incidents  # noqa: F401 - a store has all their tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

#: How long a writer waits for another one. An ingest batch holds the lock for well under a second.
BUSY_S = 30.0
_CACHE_KIB = 16 * 1024
#: Pages of the write-ahead log (16 MB) before they are moved to the file: each move waits for the disk twice.
_CHECKPOINT_PAGES = 4000
_BEGIN = "slurm_guard_begin"


class Store:
    """An open results database; use `read()` and `write()`, then `close()` (or `with`)."""

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        self.path = path
        self.readonly = readonly
        self.engine = _engine(path, readonly)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection inside one consistent snapshot. Raises StoreError for anything the database says."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A connection that holds the write lock; commits at the end, so that it survives a power loss.

        Raises StoreError: opened for reading only, disk full, damaged, or locked for longer than `BUSY_S`.
        """
        if self.readonly:
            raise StoreError(f"{self.path}: opened for reading only")
        # A deferred transaction that reads first and writes later can fail without waiting.
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Connection]:
        try:
            with self.engine.connect() as plain:
                connection = plain.execution_options(**{_BEGIN: begin})
                with connection.begin():
                    yield connection
        except DBAPIError as error:
            raise _explained(self.path, error.orig) from error
        except sqlite3.Error as error:
            raise _explained(self.path, error) from error

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_store(path: str | os.PathLike[str], readonly: bool = False) -> Store:
    """Open the store, and create it (folder 0700, file 0600) unless `readonly`.

    Several programs may open or create it at the same time. Raises StoreError if it is missing (readonly),
    not writable, damaged, not ours, or of a version that this code cannot read.
    """
    file = Path(path)
    _prepare(file, readonly)
    store = Store(file, readonly=readonly)
    try:
        _check_version(store)
    except BaseException:
        store.close()
        raise
    return store


def _prepare(file: Path, readonly: bool) -> None:
    if file.is_symlink():
        raise StoreError(f"{file}: is a symbolic link; expected a regular file, name the file it points to")
    try:
        if readonly:
            if not file.exists():
                raise StoreError(f"{file}: no such store; run `sguard ingest` on this host first")
            return
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        new = os.fstat(handle).st_size == 0
        os.close(handle)
        if new:
            _sync_folder(file.parent)
    except OSError as error:
        raise StoreError(f"{file}: cannot be opened: {error.strerror}; expected a writable file") from error


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _engine(path: Path, readonly: bool) -> Engine:
    mode = "ro" if readonly else "rw"
    address = f"file:{quote(str(path.absolute()))}?mode={mode}"

    def connect() -> sqlite3.Connection:
        # Autocommit: transactions are begun below, explicitly.
        return sqlite3.connect(
            address, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )

    engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool)
    event.listen(engine, "connect", _set_up_readonly if readonly else _set_up)
    event.listen(engine, "begin", _begin)
    return engine


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get(_BEGIN, "BEGIN"))


def _set_up_readonly(connection: sqlite3.Connection, _record: Any) -> None:
    connection.execute("PRAGMA query_only=ON")
    connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")


def _set_up(connection: sqlite3.Connection, _record: Any) -> None:
    _use_wal(connection)
    # FULL: a commit is on disk before ingest removes the files it came from, power loss included.
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
    connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL. SQLite does not wait its busy time-out for this lock, so we do."""
    deadline = time.monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _check_version(store: Store) -> None:
    found = _version(store)
    if found is None and not store.readonly:
        _create(store)
        found = _version(store)
    if found is None:
        raise StoreError(f"{store.path}: empty; expected a slurm_guard store; run `sguard ingest` first")
    major, minor = schema.VERSION
    if found[0] > major:
        what = f"made by a newer slurm_guard (schema {_dotted(found)}, this one reads {major}.x)"
        raise StoreError(f"{store.path}: {what}; upgrade slurm_guard on this host")
    if found[0] < major:
        what = f"of an older schema {_dotted(found)}, this slurm_guard writes {major}.{minor}"
        raise StoreError(f"{store.path}: {what}; move the file away and ingest anew")
    if found[1] < minor and not store.readonly:
        _add_tables(store)


def _version(store: Store) -> tuple[int, int] | None:
    """The schema version on file; None for a file without any table."""
    with store.read() as connection:
        tables = set(inspect(connection).get_table_names())
        if not tables:
            return None
        if "meta" not in tables:
            raise StoreError(f"{store.path}: is a SQLite database, but not a slurm_guard store")
        text = connection.scalar(select(schema.meta.c.value).where(schema.meta.c.key == "schema"))
    try:
        major, minor = str(text).split(".")
        return int(major), int(minor)
    except ValueError:
        raise StoreError(f"{store.path}: schema version {text!r}; expected MAJOR.MINOR") from None


def _create(store: Store) -> None:
    """Make the tables in one transaction, so that a store is either whole or empty."""
    with store.write() as connection:
        if inspect(connection).get_table_names():
            return
        schema.metadata.create_all(connection)
        row = {"key": "schema", "value": _dotted(schema.VERSION)}
        connection.execute(schema.meta.insert(), row)


def _add_tables(store: Store) -> None:
    """Bring a store of an older minor up to this one: it lacks tables, and nothing else."""
    with store.write() as connection:
        schema.metadata.create_all(connection)
        version = schema.meta.update().where(schema.meta.c.key == "schema")
        connection.execute(version.values(value=_dotted(schema.VERSION)))


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


_SAID = (
    ("locked", "another program has been writing for {busy:.0f} s; try again, or end it"),
    ("disk is full", "the disk is full; free some space, nothing was lost"),
    ("readonly", "not writable; run this as the user that owns the file"),
    ("read-only", "not writable; run this as the user that owns the file"),
    ("unable to open", "cannot be opened; check that folder and file exist and belong to this user"),
    ("not a database", "damaged, or not a SQLite database; move it away, then run `sguard ingest`"),
    ("malformed", "damaged; move it away and restore a copy, then run `sguard ingest`"),
    ("disk I/O error", "the disk gave an I/O error; check the disk and the system log"),
)


def _explained(path: Path, error: BaseException | None) -> StoreError:
    text = str(error)
    for part, meaning in _SAID:
        if part in text:
            return StoreError(f"{path}: {meaning.format(busy=BUSY_S)} ({text})")
    return StoreError(f"{path}: {text}")
