"""Which records a command answers from: the local spool first, as far as the user may, and none made up."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from slurm_guard.cli import results
from slurm_guard.cli.host import Host
from slurm_guard.core.errors import SetupError, StoreError
from tests.unit.cli.asking import answer, run
from tests.unit.cli.slurm_stub import put, run_record

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.slurm_stub import StubGateway


def test_the_local_spool_is_ingested_before_an_answer(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, run_record("n1"))
    (root / "var/lib/slurm-guard/spool/torn.json").write_text("{")
    assert run(root, "nodes") == 0
    assert "set aside, as not being records: 1 file, e.g. " in capsys.readouterr().err
    assert list((root / "var/lib/slurm-guard/spool").glob("*.json")) == []


def test_what_is_still_to_be_sent_is_read_and_stays(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, run_record("n1"))
    (root / "etc/slurm-guard").mkdir(parents=True, exist_ok=True)
    (root / "etc/slurm-guard/node.json").write_text('{"collector": {"url": "http://head:9427"}}')
    for _ in range(2):
        assert [one["node"] for one in answer(capsys, root, 0, "nodes")["nodes"]] == ["n1"]
    assert len(list((root / "var/lib/slurm-guard/spool").glob("*.json"))) == 1


@pytest.mark.parametrize(
    ("command", "code"), [(["nodes"], 0), (["drains"], 0), (["node", "n1"], 20), (["job", "12"], 20)]
)
def test_a_question_leaves_nothing_on_a_bare_host(
    command: list[str], code: int, tmp_path: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, *command) == code
    spool = tmp_path / "var/lib/slurm-guard/spool"
    said = capsys.readouterr().err
    assert f"nothing is on record on this host yet: no record was ever left in {spool}; hooks leave" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["nodes"], ["node", "n1"], ["job", "12"]])
def test_a_cluster_that_nobody_knows(
    command: list[str], root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, run_record("n1"), run_record("n2", cluster="annex"))
    assert run(root, *command, "-M", "nope") == 20
    assert capsys.readouterr().err == "sguard: -M nope: no such cluster on record; known: annex, lab\n"


def test_a_damaged_node_json_is_said_since_results_may_be_elsewhere(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, run_record("n1"))
    (root / "etc/slurm-guard").mkdir(parents=True)
    (root / "etc/slurm-guard/node.json").write_text("{")
    assert run(root, "nodes", "--no-slurm") == 0
    err = capsys.readouterr().err
    assert err.startswith(f"sguard: {root}/etc/slurm-guard/node.json: ")
    assert "the defaults are used" in err


def test_a_spool_that_cannot_be_ingested_is_said_and_the_store_still_answers(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, run_record("n1"))
    assert run(root, "nodes") == 0

    def full(*_: Any, **__: Any) -> None:
        raise StoreError("store.sqlite: the disk is full")

    monkeypatch.setattr(results, "ingest_folder", full)
    assert run(root, "nodes") == 0
    captured = capsys.readouterr()
    assert "n1" in captured.out
    assert "the local spool was not ingested: store.sqlite: the disk is full" in captured.err


class Denied:
    """`os.access` for somebody who may not do certain things."""

    def __init__(self, folder: str, modes: int) -> None:
        self.folder, self.modes = folder, modes

    def __call__(self, path: Any, mode: int, **_: Any) -> bool:
        return not (str(path) == self.folder and mode & self.modes)


def test_a_user_who_may_read_only_is_told(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, run_record("n1"))
    assert run(root, "nodes") == 0
    put(root, run_record("n2"))
    var = str(root / "var/lib/slurm-guard")
    capsys.readouterr()
    monkeypatch.setattr(results.os, "access", Denied(var, os.W_OK))
    assert answer(capsys, root, 0, "nodes", "-w", "n[1-2]")["not_on_record"] == ["n2"]
    assert run(root, "nodes") == 0
    assert "not ingested, only root may; newer runs may be missing" in capsys.readouterr().err


def test_a_user_who_may_read_nothing_is_told(
    root: Path, slurm: StubGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    var = root / "var/lib/slurm-guard"
    monkeypatch.setattr(results.os, "access", Denied(str(var), os.X_OK))
    who = var.owner()
    with pytest.raises(
        SetupError, match=rf"only {who} may read results; run `sguard` as {who} \(users: `sguard job` asks"
    ):
        results.open_results(Host(str(root)))


def test_a_host_without_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results.os, "access", Denied(str(tmp_path), os.W_OK))
    with pytest.raises(SetupError, match="no results on this host"):
        results.open_results(Host(str(tmp_path)))
