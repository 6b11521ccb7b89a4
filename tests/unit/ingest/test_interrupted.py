"""A failing store, a full disk, kills at any moment, two at once: nothing is lost, nothing counts twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from slurm_guard.core.errors import StoreError
from slurm_guard.ingest import ingest_folder
from slurm_guard.store import Store, open_store, schema
from tests.unit.ingest.looks import aside, kept, names, some
from tests.unit.store.factory import finding, job, run, spool

#: How many kills; `make soak` runs many.
KILLS = 200 if os.environ.get("SOAK") else 6


def test_a_failing_store_leaves_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = spool(tmp_path / "spool", *some(3))

    def fail(*_: object) -> None:
        raise StoreError("the disk is full")

    with open_store(tmp_path / "s.sqlite") as store:
        with monkeypatch.context() as patch:
            patch.setattr("slurm_guard.store.writer.insert", fail)
            with pytest.raises(StoreError):
                ingest_folder(store, folder)
        assert len(names(folder)) == 3
        assert ingest_folder(store, folder).ingested == 3


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """SQLite's own limit on pages stands in for the disk's end."""
    records = [run("healthcheck", "gx1", n, finding("gpu_ecc", message="x" * 3000)) for n in range(300)]
    folder = spool(tmp_path / "spool", *records)
    with open_store(tmp_path / "s.sqlite") as store:
        with store.write() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count=60")
        with pytest.raises(StoreError, match="disk is full"):
            ingest_folder(store, folder)
        assert len(names(folder)) + len(kept(store)) >= 300
        store.close()
        ingest_folder(store, folder)
        assert len(set(kept(store))) == 300


INGEST = """
import sys
from slurm_guard import ingest, spools
from slurm_guard.store import open_store
ingest._BATCH_FILES = 25
print("ready", flush=True)
with open_store(sys.argv[1]) as store:
    for folder in sys.argv[2:]:
        ingest.ingest_folder(store, folder)
"""


def ingester(database: Path, *folders: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", INGEST, str(database), *map(str, folders)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def mixed(count: int) -> list[dict[str, Any]]:
    made = []
    for number in range(count):
        given = job(1000 + number, "gx1", number)
        made += [
            run("prolog", "gx1", number, allocation=given, values={"gpu_temperature gpu0": 40}),
            run("epilog", "gx1", number + 1, finding("gpu_ecc", device="gpu3"), allocation=given),
        ]
    return made


def test_two_ingesters_at_once_count_every_record_once(tmp_path: Path) -> None:
    records = mixed(300)
    folder = spool(tmp_path / "spool", *records)
    for number in range(20):
        (folder / f"torn-{number}.json").write_text("{" * (number + 1))
    started = [ingester(tmp_path / "s.sqlite", folder) for _ in range(2)]
    said = [process.communicate(timeout=100) for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    with open_store(tmp_path / "s.sqlite") as store:
        assert sorted(one.hex() for one in kept(store)) == sorted(record["run_id"] for record in records)
        assert len(kept(store, schema.findings.c.id)) == 300
        assert len(kept(store, schema.allocations.c.id)) == 300
        assert len(aside(store)) == 20
    assert names(folder) == set()
    contents = sorted(len(path.read_text()) for path in (tmp_path / "set-aside").iterdir())
    assert contents == list(range(1, 21))


def test_killed_at_random_moments_nothing_is_lost_and_nothing_counts_twice(tmp_path: Path) -> None:
    draw = random.Random(11)
    records = mixed(40 * KILLS)
    folder = spool(tmp_path / "spool", *records)
    for number in range(KILLS):
        (folder / f"torn-{number}.json").write_text("{" * (number + 1))
    for _ in range(KILLS):
        process = ingester(tmp_path / "s.sqlite", folder)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        # The moment is the point: anywhere from opening the store to the last file.
        time.sleep(draw.uniform(0, 0.25))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        wanted = {record["run_id"] for record in records}
        on_disk = {path.stem for path in folder.glob("*.json")}
        with open_store(tmp_path / "s.sqlite") as store:
            in_store = {one.hex() for one in kept(store)}
        assert wanted <= on_disk | in_store
    with open_store(tmp_path / "s.sqlite") as store:
        ingest_folder(store, folder)
        check_whole(store, records)
        assert len(aside(store)) == KILLS
    assert len(names(tmp_path / "set-aside")) == KILLS


def check_whole(store: Store, records: list[dict[str, Any]]) -> None:
    """Every record is in once, with all its rows."""
    assert sorted(one.hex() for one in kept(store)) == sorted(record["run_id"] for record in records)
    with store.read() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
        for table in (schema.findings, schema.allocations, schema.node_samples):
            assert connection.scalar(select(func.count()).select_from(table)) == len(records) // 2, table.name
