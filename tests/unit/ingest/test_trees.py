"""Spools of many nodes below one folder are found, and nothing else there is touched."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from slurm_guard import spools
from slurm_guard.ingest import ingest_tree
from slurm_guard.store import open_store
from tests.unit.ingest.looks import named, names, some


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


def test_a_spool_that_becomes_a_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever owns a folder of spools must not make root clear another one."""
    elsewhere = named(tmp_path / "elsewhere", *some(2))
    found = named(tmp_path / "in/n1/spool", *some(1))

    def search(_: spools.Search) -> list[tuple[Path, bool]]:
        shutil.rmtree(found)
        found.symlink_to(elsewhere)
        return [(found, False)]

    monkeypatch.setattr(spools.Search, "spools", search)
    with open_store(tmp_path / "s.sqlite") as store:
        ((path, why),) = ingest_tree(store, tmp_path / "in").unread
    assert (path, "cannot be listed: " in why) == (str(found), True)
    assert len(names(elsewhere)) == 2
