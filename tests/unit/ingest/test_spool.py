"""From spool to store: records go in once, whatever else lies beside them stays or is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_guard import ingest
from slurm_guard.core.errors import SetupError
from slurm_guard.ingest import ingest_folder
from slurm_guard.store import open_store, schema, writer
from tests.unit.ingest.looks import aside, kept, names, some
from tests.unit.store.factory import job, run, spool


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


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 200_000, 4 << 20])
def test_a_large_record_is_read_whole(tmp_path: Path, size: int) -> None:
    record = run("healthcheck", "gx1", 0)
    padding = size - len(json.dumps({**record, "weather": ""}))
    (spool(tmp_path / "spool") / "a.json").write_text(json.dumps({**record, "weather": "x" * padding}))
    with open_store(tmp_path / "s.sqlite") as store:
        assert ingest_folder(store, tmp_path / "spool").ingested == 1
        assert len(kept(store, schema.runs.c.extra)[0]) == padding + len('{"weather":""}')


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
