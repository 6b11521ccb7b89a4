"""From spool to store: nothing lost, nothing twice, nothing fatal; killed at random, and two at once."""

from __future__ import annotations

import json
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

from slurm_guard import ingest, spools
from slurm_guard.core.errors import SetupError, StoreError
from slurm_guard.ingest import ingest_folder, ingest_tree
from slurm_guard.store import Store, open_store, schema, writer
from tests.unit.store.factory import finding, job, run, spool

#: How many kills; `make soak` runs many.
KILLS = 200 if os.environ.get("SOAK") else 6


def kept(store: Store, column: Any = schema.runs.c.run_id) -> list[Any]:
    with store.read() as connection:
        return list(connection.scalars(select(column)))


def aside(store: Store) -> dict[str, str]:
    with store.read() as connection:
        table = schema.set_aside
        return {row.name: row.reason for row in connection.execute(select(table.c.name, table.c.reason))}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def some(count: int, node: str = "gx1") -> list[dict[str, Any]]:
    return [run("healthcheck", node, number * 5) for number in range(count)]


def test_records_go_in_and_their_files_away(tmp_path: Path) -> None:
    folder = spool(tmp_path / "spool", *some(3), run("prolog", "gx1", 7, allocation=job(5, "gx1", 7)))
    with open_store(tmp_path / "s.sqlite") as store:
        report = ingest_folder(store, folder)
        assert (report.ingested, report.duplicates, report.set_aside) == (4, 0, [])
        assert report.rows == sum(len(kept(store, t.c[0])) for t in (schema.runs, schema.allocations))
        assert len(kept(store)) == 4
    assert names(folder) == set()


def test_a_second_ingest_changes_nothing(tmp_path: Path) -> None:
    records = some(3)
    with open_store(tmp_path / "s.sqlite") as store:
        ingest_folder(store, spool(tmp_path / "spool", *records))
        report = ingest_folder(store, spool(tmp_path / "spool", *records))
        assert (report.ingested, report.duplicates, report.rows) == (0, 3, 0)
        assert len(kept(store)) == 3
    assert names(tmp_path / "spool") == set()


def test_files_may_stay(tmp_path: Path) -> None:
    folder = spool(tmp_path / "spool", *some(2))
    (folder / "torn.json").write_text("{")
    with open_store(tmp_path / "s.sqlite") as store:
        for expected in ((2, 0), (0, 2)):
            report = ingest_folder(store, folder, remove=False)
            assert (report.ingested, report.duplicates, len(report.set_aside)) == (*expected, 1)
        assert len(aside(store)) == 1
    assert len(names(folder)) == 3
    assert not (tmp_path / "set-aside").exists()


def test_a_missing_folder_is_an_empty_one(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.sqlite") as store:
        assert ingest_folder(store, tmp_path / "nowhere").ingested == 0


def test_a_file_in_the_folders_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("")
    with open_store(tmp_path / "s.sqlite") as store, pytest.raises(SetupError, match="cannot be listed"):
        ingest_folder(store, tmp_path / "spool")


def test_files_being_written_are_left_alone(tmp_path: Path) -> None:
    folder = spool(tmp_path / "spool")
    for name in (".x.json", "x.json.tmp", "README", ".tmp-1"):
        (folder / name).write_text("{}")
    (folder / "folder.json").mkdir()
    with open_store(tmp_path / "s.sqlite") as store:
        report = ingest_folder(store, folder)
    assert (report.ingested, report.set_aside) == (0, [])
    assert len(names(folder)) == 5


def bad_files(folder: Path) -> dict[str, str]:
    """Files that are no records, and what their reason must say."""
    whole = json.dumps(run("healthcheck", "gx1", 0))
    contents = {
        "torn.json": (whole[:200].encode(), "torn"),
        "empty.json": (b"", "torn"),
        "foreign.json": (b'{"name": "left-pad", "version": "1.0.0"}', "schema"),
        "future.json": (whole.replace('"schema": "1.0"', '"schema": "7.0"').encode(), "majors"),
        "types.json": (whole.replace('"drill": false', '"drill": "no"').encode(), "drill"),
        "zeros.json": (b"\0" * 4096, "torn"),
        "deep.json": (b"[" * 100_000, "nested"),
        "huge-number.json": (whole.replace("41.5", "1e999").encode(), "elapsed_ms"),
        "latin1.json": (whole.replace("aurora", "aur\xf6ra").encode("latin-1"), "torn"),
    }
    for name, (content, _) in contents.items():
        (folder / name).write_bytes(content)
    with (folder / "oversize.json").open("wb") as file:
        file.truncate(1 << 31)
    (folder / "link.json").symlink_to("/etc/shadow")
    (folder / "dangling.json").symlink_to("/nowhere")
    os.mkfifo(folder / "pipe.json")
    said = {name: said for name, (_, said) in contents.items()}
    special = {
        "oversize.json": "at most",
        "link.json": "regular",
        "dangling.json": "regular",
        "pipe.json": "regular",
    }
    return {**said, **special}


def test_what_is_no_record_is_set_aside_whole_with_its_reason(tmp_path: Path) -> None:
    records = some(5)
    folder = spool(tmp_path / "spool", *records)
    expected = bad_files(folder)
    torn = (folder / "torn.json").read_bytes()
    with open_store(tmp_path / "s.sqlite") as store:
        report = ingest_folder(store, folder)
        assert report.ingested == 5
        reasons = aside(store)
    assert {name for name, said in expected.items() if said not in reasons.get(name, "")} == set()
    assert {Path(path).name for path, _ in report.set_aside} == set(expected)
    assert names(folder) == set()
    assert names(tmp_path / "set-aside") == set(expected)
    assert (tmp_path / "set-aside" / "torn.json").read_bytes() == torn
    assert (tmp_path / "set-aside" / "link.json").is_symlink()


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 200_000, 4 << 20])
def test_a_large_record_is_read_whole(tmp_path: Path, size: int) -> None:
    record = run("healthcheck", "gx1", 0)
    padding = size - len(json.dumps({**record, "weather": ""}))
    (spool(tmp_path / "spool") / "a.json").write_text(json.dumps({**record, "weather": "x" * padding}))
    with open_store(tmp_path / "s.sqlite") as store:
        assert ingest_folder(store, tmp_path / "spool").ingested == 1
        assert len(kept(store, schema.runs.c.extra)[0]) == padding + len('{"weather":""}')


def test_another_file_of_the_same_name_never_overwrites(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.sqlite") as store:
        for content in ("{", "[", "{"):
            (spool(tmp_path / "spool") / "a.json").write_text(content)
            ingest_folder(store, tmp_path / "spool")
        assert len(kept(store, schema.set_aside.c.id)) == 2
    assert sorted(path.read_text() for path in (tmp_path / "set-aside").iterdir()) == ["[", "{", "{"]


def test_other_content_under_a_known_run_id_is_kept_aside(tmp_path: Path) -> None:
    record = run("healthcheck", "gx1", 0)
    with open_store(tmp_path / "s.sqlite") as store:
        ingest_folder(store, spool(tmp_path / "spool", record))
        forged = spool(tmp_path / "spool", {**record, "status": "fail"})
        report = ingest_folder(store, forged)
        assert (report.ingested, report.duplicates) == (0, 0)
        assert "run_id" in report.set_aside[0][1]
    assert len(names(tmp_path / "set-aside")) == 1


def test_a_spool_on_a_file_system_of_its_own_keeps_bad_files_within(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = spool(tmp_path / "spool")
    (folder / "torn.json").write_text("{")
    real = os.link

    def link(source: Path, target: Path, **how: Any) -> None:
        if "spool" not in target.parts:
            raise OSError(18, "Invalid cross-device link")
        real(source, target, **how)

    monkeypatch.setattr(os, "link", link)
    with open_store(tmp_path / "s.sqlite") as store:
        ingest_folder(store, folder)
    assert (folder / ".set-aside" / "torn.json").read_text() == "{"


def named(folder: Path, *records: dict[str, Any]) -> Path:
    """A spool whose files are named as the guard names them."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, record in enumerate(records):
        (folder / f"r-{number:016d}-{record['run_id']}.json").write_text(json.dumps(record))
    return folder


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def test_spools_of_many_nodes_are_walked(tmp_path: Path) -> None:
    top = tmp_path / "in"
    for number in range(4):
        named(top / f"gx{number}" / "spool", *some(2, f"gx{number}"))
    named(top / "nodes/gx5/var/lib/slurm-guard/spool", *some(1))
    named(top / ".hidden/spool", *some(1))
    named(top / "set-aside/spool", *some(1))
    named(tmp_path / "elsewhere/spool", *some(1))
    (top / "link").symlink_to(tmp_path / "elsewhere")
    (top / "gx7").mkdir()
    (top / "gx7/spool").symlink_to(tmp_path / "elsewhere/spool")
    (top / "gx1/spool/torn.json").write_text("{")
    with open_store(tmp_path / "s.sqlite") as store:
        report = ingest_tree(store, top)
        assert (report.ingested, len(report.set_aside)) == (9, 1)
        assert (report.without_spool, report.unread) == ([], [])
    assert names(top / "gx1/set-aside") == {"torn.json"}
    assert len(names(tmp_path / "elsewhere/spool")) == 1


def test_only_a_spools_files_are_touched(tmp_path: Path) -> None:
    """Whatever a folder of nodes holds: plans, states, allocations and others' files stay where they are."""
    top = tmp_path / "in"
    home = top / "n1/var/lib/slurm-guard"
    foreign = ["plan.json", "faults.json", "state.json", "allocations/12.json", "requests/a.json"]
    foreign = [f"n1/var/lib/slurm-guard/{name}" for name in foreign]
    foreign += ["package.json", "var/spool/mail.json", "n1/etc/x.json", f"n1/h-{1:016d}-{2:032x}.json"]
    for name in foreign:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("{}")
    named(home / "spool", *some(2))
    (home / "spool/torn.json").write_text("{")
    with open_store(tmp_path / "s.sqlite") as store:
        report = ingest_tree(store, top)
    assert (report.ingested, len(report.set_aside)) == (2, 1)
    assert everything(top) == {*foreign, "n1/var/lib/slurm-guard/set-aside/torn.json"}


def test_a_folder_of_another_name_may_be_a_spool(tmp_path: Path) -> None:
    folder = named(tmp_path / "collected", *some(2))
    (folder / "plan.json").write_text("{}")
    torn = f"h-{5:016d}-{7:032x}.json"
    (folder / torn).write_text("{")
    with open_store(tmp_path / "s.sqlite") as store:
        report = ingest_tree(store, folder)
    assert (report.ingested, [Path(path).name for path, _ in report.set_aside]) == (2, [torn])
    assert names(folder) == {"plan.json"}


def test_a_folder_without_a_spool_is_told(tmp_path: Path) -> None:
    (tmp_path / "in/spool").mkdir(parents=True)
    (tmp_path / "in/spool/print-job.json").write_text("{}")
    with open_store(tmp_path / "s.sqlite") as store:
        report = ingest_tree(store, tmp_path / "in")
    assert (report.without_spool, report.set_aside) == ([str(tmp_path / "in")], [])
    assert everything(tmp_path / "in") == {"spool/print-job.json"}


def test_what_cannot_be_listed_below_a_folder_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = tmp_path / "in"
    named(top / "n1/spool", *some(1))
    (top / "private").mkdir()
    real = os.scandir

    def scandir(path: Any) -> Any:
        if str(path) == str(top / "private"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with open_store(tmp_path / "s.sqlite") as store:
        report = ingest_tree(store, top)
    assert (report.ingested, report.unread) == (1, [(str(top / "private"), "Permission denied")])


def test_no_mount_point_is_entered_but_a_spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named(tmp_path / "in/scratch/spool", *some(1))
    own = named(tmp_path / "in/n1/spool", *some(1))
    monkeypatch.setattr(spools, "_mount_points", lambda: {str(tmp_path / "in/scratch"), str(own)})
    with open_store(tmp_path / "s.sqlite") as store:
        assert ingest_tree(store, tmp_path / "in").ingested == 1
    assert names(own) == set()


def test_more_files_than_one_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "_BATCH_FILES", 7)
    folder = spool(tmp_path / "spool", *some(50))
    with open_store(tmp_path / "s.sqlite") as store:
        assert ingest_folder(store, folder).ingested == 50
    assert names(folder) == set()


def test_a_batch_larger_than_what_is_in_memory_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Duplicates, and other content under one run_id, are found across the chunks of one transaction."""
    monkeypatch.setattr(writer, "_CHUNK", 3)
    records = some(10)
    folder = spool(tmp_path / "spool", *records)
    (folder / "again.json").write_text(json.dumps(records[0]))
    (folder / "other.json").write_text(json.dumps({**records[9], "status": "warn"}))
    (folder / "torn.json").write_text("{")
    with open_store(tmp_path / "s.sqlite") as store:
        report = ingest_folder(store, folder)
        assert (report.ingested, report.duplicates, report.rows) == (10, 1, 10)
        assert len(kept(store)) == 10
    assert len(report.set_aside) == 2


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
