"""`sguard drains`: what is out because of us, what is not ours any more, what comes next, what was done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.cli.asking import DOWN, LOST, answer, lose_gpu, run
from tests.unit.cli.slurm_stub import action, drained, idle, put, put_plan, run_record

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.slurm_stub import StubGateway


def test_drains_says_what_happens_next(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    lose_gpu(root)
    slurm.known["n2"] = drained("n2", "SG:gpu_count.lost gpu3")
    (one,) = answer(capsys, root, 1, "drains")["drains"]
    assert (one["node"], one["ours"], one["state"]) == ("n2", True, "IDLE+DRAIN")
    assert one["next"] == "stays until repaired; open: gpu_count.lost gpu3"
    put(root, run_record("n2", ago_s=5))
    (one,) = answer(capsys, root, 1, "drains")["drains"]
    assert one["next"] == "returns by itself after 3 clean healthchecks in a row"
    put_plan(root, default_profile={})
    (one,) = answer(capsys, root, 1, "drains")["drains"]
    assert one["next"] == "stays until `sguard resume`: resume is not in enforce"


@pytest.mark.parametrize(
    ("reason", "user", "listed", "said"),
    [
        ("SG:gpu_count.lost gpu3 T-9", "alice", True, "is drained with a reason that is not ours"),
        ("SG:gpu_count.lost gpu3", "mallory", True, "set by mallory, who is not one of ours"),
        ("waiting for parts", "alice", False, ""),
    ],
)
def test_drains_that_are_no_longer_ours(
    reason: str,
    user: str,
    listed: bool,
    said: str,
    root: Path,
    slurm: StubGateway,
    capsys: pytest.CaptureFixture[str],
) -> None:
    slurm.known["n2"] = drained("n2", reason, user)
    found = answer(capsys, root, int(listed), "drains")["drains"]
    assert [(one["ours"], said in one["next"]) for one in found] == [(False, True)] * listed


def test_drains_on_record_that_slurm_does_not_confirm(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    lose_gpu(root)
    slurm.known["n2"] = idle("n2")
    found = answer(capsys, root, 1, "drains")
    assert found["drains"] == []
    assert [one["node"] for one in found["not_drained"]] == ["n2"]
    assert "somebody put the node back" in found["not_drained"][0]["open_faults"][0]["next"]
    slurm.error = DOWN
    assert run(root, "drains") == 1
    captured = capsys.readouterr()
    assert captured.out.splitlines()[1].split()[:2] == ["n2", "?"]
    assert "if still drained: " in captured.out
    assert "without Slurm's own states" in captured.err


def test_drains_of_some_nodes_only(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.known["n2"] = drained("n2", "SG:gpu_count.lost gpu3")
    assert run(root, "drains", "-w", "n1") == 0
    assert capsys.readouterr().out == "No node is drained by slurm_guard.\n"
    assert run(root, "drains", "-w", "n[1-2]") == 1
    assert "SG:gpu_count.lost gpu3" in capsys.readouterr().out


def test_drains_that_were_only_observed_are_counted(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 2, 2):
        put(root, run_record(f"n{number}", actions=[action("drain", *LOST, outcome="observed")]))
    assert run(root, "drains") == 0
    assert capsys.readouterr().out == (
        "No node is drained by slurm_guard.\n"
        "2 nodes would have been in the last 7 days (observe mode): see --history\n"
    )


@pytest.mark.parametrize("option", ["-S", "-E"])
def test_a_time_without_history_is_a_usage_error(
    option: str, root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(root, "drains", option, "now-1hour") == 2
    assert "--history" in capsys.readouterr().err
    assert slurm.calls == 0


def test_history_has_a_window(root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]) -> None:
    lose_gpu(root)
    found = answer(capsys, root, 0, "drains", "--history")
    assert found["kind"] == "drain_history"
    assert [(one["node"], one["action"], one["reason"]) for one in found["history"]] == [
        ("n2", "drain", "SG:gpu_count.lost gpu3")
    ]
    assert answer(capsys, root, 0, "drains", "--history", "-E", "now-1hour")["history"] == []
    assert answer(capsys, root, 0, "drains", "--history", "-w", "n1")["history"] == []
    assert run(root, "drains", "--history", "-S", "soon") == 2
    assert "-S" in capsys.readouterr().err
    assert run(root, "drains", "--history") == 0
    assert 'healthcheck drained n2 "SG:gpu_count.lost gpu3"' in capsys.readouterr().out
