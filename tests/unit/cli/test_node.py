"""`sguard node`: the page of one node, healthy, broken, unknown, and without Slurm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.cli.asking import DOWN, answer, lose_gpu, run
from tests.unit.cli.slurm_stub import drained, put, run_record

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.unit.cli.slurm_stub import StubGateway


def test_node_page(root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]) -> None:
    lose_gpu(root, remedy="Reboot the node.")
    slurm.known["n2"] = drained("n2", "SG:gpu_count.lost gpu3")
    assert run(root, "node", "n2") == 1
    page = capsys.readouterr().out
    assert page.startswith("Node n2 on lab: fail (times are UTC)\n")
    assert "gpu_count.lost gpu3" in page
    assert "\n  Slurm: IDLE+DRAIN SG:gpu_count.lost gpu3, by root since 20" in page
    assert "\n  next: stays until repaired; open: gpu_count.lost gpu3\n" in page
    found = answer(capsys, root, 1, "node", "n2")
    assert found["open_faults"][0]["fault"] == "gpu_count.lost"
    assert found["slurm"]["state"] == "IDLE+DRAIN"


def test_a_healthy_and_an_unknown_node(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, run_record("n1"))
    assert run(root, "node", "n1", "-S", "now-1hour") == 0
    assert "Node n1 on lab: pass" in capsys.readouterr().out
    assert run(root, "node", "n10") == 20
    assert "n10 is IDLE in Slurm, but no run of it is on record" in capsys.readouterr().err
    assert run(root, "node", "n77") == 20
    assert "n77 is not on record" in capsys.readouterr().err


def test_a_node_without_slurm(root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]) -> None:
    put(root, run_record("n1"))
    slurm.error = DOWN
    assert run(root, "node", "n1") == 0
    captured = capsys.readouterr()
    assert "Slurm" not in captured.out
    assert captured.err == f"sguard: without Slurm's own states: {DOWN}\n"
    assert answer(capsys, root, 0, "node", "n1", "--no-slurm")["slurm_problem"] == "not asked (--no-slurm)"
