"""The store: rows per second from spool files, memory while ingesting, size on disk."""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from bench import records
from bench.table import Row

if TYPE_CHECKING:
    from pathlib import Path

    from bench.setting import Setting

ROWS_PER_SECOND = 60_000
SMALL, LARGE = 5_000, 20_000
DAYS = 30
START = datetime(2026, 9, 1, tzinfo=UTC)


def rows(setting: Setting) -> list[Row]:
    """Each spool in a process of its own, so that the peak memory of one does not hide in another's."""
    small = ingest(setting.folder / "small", SMALL, records.TROUBLE)
    large = ingest(setting.folder / "large", LARGE, records.TROUBLE)
    sick = ingest(setting.folder / "sick", SMALL, 1.0)
    per_day = large["db_bytes"] / large["files"] * 288 * 1000 / 1e9
    return [
        speed_row("ingest, healthy spool", large),
        speed_row("ingest, every run with 8 findings", sick),
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


def speed_row(what: str, found: dict[str, Any]) -> Row:
    """Rows per second from files on disk; a healthy run is one row with all its passing checks in it."""
    speed = found["rows"] / found["seconds"]
    files = found["files"] / found["seconds"]
    return Row(
        what,
        f">= {ROWS_PER_SECOND:,} rows/s",
        "87-94k from memory",
        f"{speed:,.0f} rows/s, {files:,.0f} files/s",
        holds=speed >= ROWS_PER_SECOND,
        note=f"{found['rows']:,} rows from {found['files']:,} files, which are removed once committed; "
        f"{files * len(records.CHECKS):,.0f} check results/s",
    )


def ingest(folder: Path, count: int, trouble: float) -> dict[str, Any]:
    """Write a spool of `count` healthchecks and ingest it in a fresh process."""
    draw = random.Random(1)
    made = islice(records.healthchecks(draw, 200, START, DAYS, trouble), count)
    records.write_spool(folder / "spool", made)
    command = [sys.executable, "-m", "bench.store", str(folder / "spool"), str(folder / "store.sqlite")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return {**found, "files": count}


def count_rows(path: Path) -> int:
    """Rows over all tables of the store."""
    import sqlite3

    with sqlite3.connect(path) as connection:
        names = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return sum(connection.execute(f'SELECT COUNT(*) FROM "{name}"').fetchone()[0] for name in names)


def ingest_here(spool: Path, database: Path) -> None:
    """What the fresh process does: ingest, then tell seconds, rows, bytes and peak memory."""
    from slurm_guard import ingest as service
    from slurm_guard.store.engine import open_store

    started = time.perf_counter()
    with open_store(database) as store:
        service.ingest_folder(store, spool)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = sum(path.stat().st_size for path in database.parent.glob(f"{database.name}*"))
    result = {"seconds": seconds, "rows": count_rows(database), "rss_mb": peak, "db_bytes": size}
    print(json.dumps(result))


if __name__ == "__main__":
    from pathlib import Path

    ingest_here(Path(sys.argv[1]), Path(sys.argv[2]))
