"""The store: rows per second from spool files, memory while ingesting, size on disk."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import records
from bench.table import Row
from slurm_guard.store.schema import runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.setting import Setting

ROWS_PER_SECOND = 60_000
SMALL, LARGE = 5_000, 20_000
NODES = 2_000
DAYS = 30
#: As ingest does it: files of one transaction, and rows of one statement.
BATCH, CHUNK = 2_000, 200
START = datetime(2026, 9, 1, tzinfo=UTC)

RUN_COLUMNS = [column.name for column in runs.columns]


def rows(setting: Setting) -> list[Row]:
    """Each spool in a process of its own, so that the peak memory of one does not hide in another's."""
    small = ingest(setting.folder / "small", healthchecks(SMALL, records.TROUBLE))
    large = ingest(setting.folder / "large", healthchecks(LARGE, records.TROUBLE))
    hour = ingest(setting.folder / "hour", records.hour(random.Random(1), NODES, START))
    sick = ingest(setting.folder / "sick", healthchecks(SMALL, 1.0))
    per_day = large["db_bytes"] / large["files"] * 288 * 1000 / 1e9
    return [
        speed_row(f"ingest, an hour of {NODES:,} nodes", hour, "9 healthchecks to 1 prolog or epilog"),
        speed_row("ingest, healthchecks only", large, "99 of 100 are healthy and one row each"),
        speed_row("ingest, sick healthchecks only", sick, "8 findings in each"),
        Row(
            "memory while ingesting",
            "flat",
            "-",
            f"{small['rss_mb']:.0f} MB at {SMALL:,} files, {large['rss_mb']:.0f} at {LARGE:,}",
            holds=large["rss_mb"] < 1.1 * small["rss_mb"],
        ),
        Row(
            "store, per 1,000 nodes and day",
            "-",
            "-",
            f"{per_day:.2f} GB",
            note="healthchecks every 5 minutes, 1 % of the runs with 8 findings; jobs not counted",
        ),
    ]


def speed_row(what: str, found: dict[str, Any], content: str) -> Row:
    """Rows per second from files on disk; a healthy run is one row with all its passing checks in it."""
    speed = found["rows"] / found["seconds"]
    files = found["files"] / found["seconds"]
    cpu = 1e6 * found["cpu"] / found["files"]
    size = f"{found['rows']:,} rows from {found['files']:,} files of {found['bytes'] >> 20} MiB"
    return Row(
        what,
        f">= {ROWS_PER_SECOND:,} rows/s",
        "87-94k from memory",
        f"{speed:,.0f} rows/s, {files:,.0f} files/s",
        f"{found['files'] / found['bare_seconds']:,.0f} files/s",
        holds=speed >= ROWS_PER_SECOND,
        note=f"{content}; {size} in {found['seconds']:.2f} s, {cpu:.0f} us CPU a file, opening the store and "
        "removing the files included; bare: read, decode, one row each, remove, and nothing checked",
    )


def healthchecks(count: int, trouble: float) -> Iterator[dict[str, Any]]:
    """Healthchecks of 200 nodes."""
    return islice(records.healthchecks(random.Random(1), 200, START, DAYS, trouble), count)


def ingest(folder: Path, made: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """Write a spool of these records and a copy, and ingest it in a fresh process."""
    files, size = records.write_spool(folder / "spool", made)
    shutil.copytree(folder / "spool", folder / "copy")
    command = [sys.executable, "-m", "bench.store", str(folder / "spool"), str(folder / "store.sqlite")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    bare_seconds = store_unchecked(folder / "copy", folder / "bare.sqlite")
    return {**found, "files": files, "bytes": size, "bare_seconds": bare_seconds}


def store_unchecked(spool: Path, database: Path) -> float:
    """Seconds to decode every file, insert one row for it and remove it: no ingest in Python is faster."""
    from slurm_guard.store.engine import open_store
    from slurm_guard.store.statements import INSERTS

    started = time.perf_counter()
    opened = os.open(spool, os.O_RDONLY)
    names, done = (path.name for path in spool.iterdir()), 0
    with open_store(database) as store:
        while some := list(islice(names, BATCH)):
            with store.write() as connection:
                for position in range(0, len(some), CHUNK):
                    rows = []
                    for name in some[position : position + CHUNK]:
                        done += 1
                        rows.append(bare_row(json.loads(read(opened, name)), done))
                    connection.exec_driver_sql(INSERTS["runs"], rows)
            for name in some:
                os.unlink(name, dir_fd=opened)
    os.close(opened)
    return time.perf_counter() - started


def read(opened: int, name: str) -> bytes:
    """The start of a file, which is all of a record."""
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=opened)
    content = os.read(handle, 64 << 10)
    os.close(handle)
    return content


def bare_row(data: dict[str, Any], number: int) -> tuple[Any, ...]:
    """A row of `runs` as it would be if nothing had to be looked up or checked."""
    given = {
        "id": number,
        "run_id": bytes.fromhex(data["run_id"]),
        "kind": "run",
        "hook": data["hook"],
        "node_id": 1,
        "boot": 1,
        "guard": 1,
        "started": number,
        "elapsed_ms": data["elapsed_ms"],
        "uptime_s": data["uptime_s"],
        "status": data["status"],
        "mode": data["mode"],
        "drill": 0,
        "schema": data["schema"],
        "digest": number,
    }
    return tuple(map(given.get, RUN_COLUMNS))


def count_rows(path: Path) -> int:
    """Rows over all tables of the store."""
    import sqlite3

    with sqlite3.connect(path) as connection:
        names = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return sum(connection.execute(f'SELECT COUNT(*) FROM "{name}"').fetchone()[0] for name in names)


def peak_mb() -> float:
    """The peak memory of this process. `ru_maxrss` would also count what the parent held at the fork."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def ingest_here(spool: Path, database: Path) -> None:
    """What the fresh process does: ingest, make incidents, then tell seconds, rows, bytes and peak memory."""
    from slurm_guard import correlate
    from slurm_guard import ingest as service
    from slurm_guard.store.engine import open_store

    started, cpu = time.perf_counter(), time.process_time()
    with open_store(database) as store:
        service.ingest_folder(store, spool)
        correlate.run(store, 0)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    peak = peak_mb()
    size = sum(path.stat().st_size for path in database.parent.glob(f"{database.name}*"))
    result = {"seconds": seconds, "cpu": cpu, "rows": count_rows(database), "rss_mb": peak, "db_bytes": size}
    print(json.dumps(result))


if __name__ == "__main__":
    ingest_here(Path(sys.argv[1]), Path(sys.argv[2]))
