"""What is no record is kept aside whole, with its reason, and never overwrites another file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from slurm_guard.ingest import ingest_folder
from slurm_guard.store import open_store, schema
from tests.unit.ingest.looks import aside, kept, names, some
from tests.unit.store.factory import run, spool


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
