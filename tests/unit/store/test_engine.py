"""Opening the store: permissions, versions, damage, and several programs at once."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import func, select

from slurm_guard.core.errors import StoreError
from slurm_guard.store import engine, open_store, schema, schema_central, schema_incidents

if TYPE_CHECKING:
    from pathlib import Path


def test_a_new_store_is_private_in_wal_mode_and_syncs_each_commit(tmp_path: Path) -> None:
    path = tmp_path / "var" / "store.sqlite"
    with open_store(path) as store, store.write() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert set(modes.values()) == {0o600}, modes
    assert "store.sqlite-wal" in modes


def test_a_store_opens_again_with_its_version(tmp_path: Path) -> None:
    for _ in range(2):
        with open_store(tmp_path / "s.sqlite") as store, store.read() as connection:
            version = connection.scalar(select(schema.meta.c.value).where(schema.meta.c.key == "schema"))
            assert version == "1.1"


def test_readonly_reads_and_never_writes(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    open_store(path).close()
    with open_store(path, readonly=True) as store:
        with store.read() as connection:
            assert connection.scalar(select(func.count()).select_from(schema.runs)) == 0
        with pytest.raises(StoreError, match="reading only"), store.write():
            pass


def test_readonly_does_not_create(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no such store.*sguard ingest"):
        open_store(tmp_path / "s.sqlite", readonly=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("2.0", "newer slurm_guard"),
        ("9.1", "newer slurm_guard"),
        ("0.4", "older schema"),
        ("soon", "MAJOR.MINOR"),
    ],
)
def test_other_versions_are_told(tmp_path: Path, version: str, said: str) -> None:
    path = tmp_path / "s.sqlite"
    open_store(path).close()
    with sqlite3.connect(path) as plain:
        plain.execute("UPDATE meta SET value=?", (version,))
    plain.close()
    with pytest.raises(StoreError, match=said):
        open_store(path)


def test_a_newer_minor_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    open_store(path).close()
    with sqlite3.connect(path) as plain:
        plain.execute("UPDATE meta SET value='1.9'")
    plain.close()
    open_store(path).close()


def test_a_store_of_an_older_minor_gets_the_tables_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    open_store(path).close()
    lacking = [*schema_incidents.TABLES, *schema_central.TABLES]
    with sqlite3.connect(path) as plain:
        for table in lacking:
            plain.execute(f"DROP TABLE {table.name}")
        plain.execute("UPDATE meta SET value='1.0'")
    plain.close()
    open_store(path, readonly=True).close()
    with open_store(path) as store, store.read() as connection:
        for table in lacking:
            assert connection.scalar(select(func.count()).select_from(table)) == 0
        version = connection.scalar(select(schema.meta.c.value).where(schema.meta.c.key == "schema"))
        assert version == "1.1"


@pytest.mark.parametrize("readonly", [False, True])
def test_somebody_elses_database_is_not_touched(tmp_path: Path, readonly: bool) -> None:
    path = tmp_path / "s.sqlite"
    with sqlite3.connect(path) as plain:
        plain.execute("CREATE TABLE recipes (name TEXT)")
    plain.close()
    with pytest.raises(StoreError, match="not a slurm_guard store"):
        open_store(path, readonly=readonly)


@pytest.mark.parametrize(
    "content", [b"not a database, but long enough to be one" * 100, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_a_damaged_file_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s.sqlite"
    path.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"):
        open_store(path)


def test_damage_found_later_is_told_too(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with open_store(path) as store:
        with store.write() as connection:
            connection.exec_driver_sql("CREATE INDEX extra ON findings (message)")
        store.close()
        content = bytearray(path.read_bytes())
        content[4096:] = b"\xee" * len(content[4096:])
        path.write_bytes(content)
        with pytest.raises(StoreError, match="damaged"), store.read() as connection:
            connection.scalar(select(func.count()).select_from(schema.runs))


def test_a_link_or_a_folder_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "link.sqlite").symlink_to(tmp_path / "target.sqlite")
    with pytest.raises(StoreError, match="symbolic link"):
        open_store(tmp_path / "link.sqlite")
    assert not (tmp_path / "target.sqlite").exists()
    with pytest.raises(StoreError, match="cannot be opened"):
        open_store(tmp_path)


def test_a_long_writer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "BUSY_S", 0.05)
    path = tmp_path / "s.sqlite"
    with (
        open_store(path) as one,
        open_store(path) as other,
        one.write(),
        pytest.raises(StoreError, match="another program"),
        other.write(),
    ):
        pass


def test_a_failed_transaction_leaves_nothing(tmp_path: Path) -> None:
    def fill(store: engine.Store) -> None:
        with store.write() as connection:
            connection.execute(schema.series.insert(), {"name": "gpu_temperature gpu0"})
            raise RuntimeError("power cut")

    with open_store(tmp_path / "s.sqlite") as store:
        with pytest.raises(RuntimeError):
            fill(store)
        with store.read() as connection:
            assert connection.scalar(select(func.count()).select_from(schema.series)) == 0


def test_many_programs_may_create_it_at_once(tmp_path: Path) -> None:
    path = tmp_path / "new" / "s.sqlite"
    code = f"from slurm_guard.store import open_store\nopen_store({str(path)!r}).close()"
    started = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) for _ in range(4)]
    said = [process.communicate(timeout=60)[1] for process in started]
    assert [process.returncode for process in started] == [0] * 4, said


def test_many_threads_may_create_it_at_once(tmp_path: Path) -> None:
    failures: list[BaseException] = []
    gate = threading.Barrier(8)

    def enter() -> None:
        gate.wait(timeout=30)
        try:
            open_store(tmp_path / "new" / "s.sqlite").close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=enter) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert failures == []
