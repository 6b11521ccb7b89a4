"""`sguard ingest`: spools of many nodes, and what is left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.cli.asking import answer, run
from tests.unit.cli.slurm_stub import put, run_record

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_ingest_takes_spools_of_many_nodes(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("n1", "n2"):
        put(tmp_path / "spools" / name, run_record(name))
    source = tmp_path / "spools"
    spools = [str(source / "n1"), str(source / "n2")]
    found = answer(capsys, root, 0, "ingest", *spools, "--keep")
    assert (found["ingested"], found["duplicates"], found["set_aside"]) == (2, 0, [])
    found = answer(capsys, root, 0, "ingest", *spools)
    assert (found["ingested"], found["duplicates"]) == (0, 2)
    (source / "n1/var/lib/slurm-guard/spool/torn.json").write_text('{"schema": "1.0", "ki')
    assert run(root, "ingest", *spools) == 1
    captured = capsys.readouterr()
    assert captured.out == "0 records ingested, 0 known already, 1 set aside\n"
    assert "set aside: " in captured.err
    assert run(root, "ingest", str(source / "gone")) == 21


def test_one_record_is_one_record(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path / "n1", run_record("n1"))
    assert run(root, "ingest", str(tmp_path / "n1")) == 0
    assert capsys.readouterr().out == "1 record ingested, 0 known already, 0 set aside\n"


def test_ingest_says_what_it_left_alone(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/plan.json").write_text("{}")
    assert run(root, "ingest", str(tmp_path / "in")) == 0
    captured = capsys.readouterr()
    assert captured.out == "0 records ingested, 0 known already, 0 set aside\n"
    assert captured.err.startswith(f"sguard: {tmp_path}/in: no spool in it: ")
    assert len(captured.err.splitlines()) == 1
