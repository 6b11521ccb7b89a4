"""`sguard nodes`: Slurm's nodes and those on record, chosen by name, partition and cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slurm_guard.core.errors import SlurmUnreachableError
from tests.unit.cli.asking import DOWN, LOST, answer, lose_gpu, run
from tests.unit.cli.slurm_stub import action, drained, put, run_record

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.slurm_stub import StubGateway

LONG_WORDS = (
    "sinfo: sinfo: error: look_up: no such host sinfo: error: fetch: it failed "
    "sinfo: fatal: Could not find a configuration (exit status 1)"
)


def test_nodes_lists_slurms_nodes_and_those_on_record(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, run_record("n1"))
    lose_gpu(root)
    found = answer(capsys, root, 1, "nodes")
    assert [(one["node"], one["status"], one["slurm"]["state"]) for one in found["nodes"]] == [
        ("n1", "pass", "IDLE"),
        ("n2", "fail", "IDLE"),
    ]
    assert found["not_on_record"] == ["n10"]
    assert found["nodes"][1]["open_faults"][0]["fault"] == "gpu_count.lost"
    assert found["nodes"][0]["last"]["hook"] == "healthcheck"
    assert found["slurm_problem"] is None


def test_a_node_that_somebody_put_back_is_not_drained(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, run_record("n2", ago_s=600, actions=[action("drain", *LOST, ago_s=599)]), run_record("n2"))
    assert answer(capsys, root, 0, "nodes")["nodes"][0]["drained"] is None
    assert answer(capsys, root, 1, "nodes", "--no-slurm")["nodes"][0]["drained"]["fault"] == "gpu_count.lost"
    slurm.known["n2"] = drained("n2", "SG:gpu_count.lost gpu3")
    assert answer(capsys, root, 1, "nodes")["totals"]["drained"] == 1


def test_healthy_nodes_end_with_0(root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]) -> None:
    put(root, run_record("n1"))
    assert run(root, "nodes") == 0
    page = capsys.readouterr().out
    assert "clean (1): n1" in page
    assert "not on record: n[2,10]" in page


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-w", "n[1-2]"], (["n1"], ["n2"])),
        (["-p", "main"], (["n1"], ["n10", "n2"])),
        (["-p", "main", "-w", "n10,n77"], ([], ["n10"])),
        (["-w", "n10,n77"], ([], ["n10", "n77"])),
        (["-w", "n1", "-M", "lab"], (["n1"], [])),
    ],
)
def test_choosing_nodes(
    options: list[str],
    expected: tuple[list[str], list[str]],
    root: Path,
    slurm: StubGateway,
    capsys: pytest.CaptureFixture[str],
) -> None:
    put(root, run_record("n1"))
    found = answer(capsys, root, 0, "nodes", *options)
    assert ([one["node"] for one in found["nodes"]], found["not_on_record"]) == expected


@pytest.mark.parametrize("is_down", [False, True])
def test_names_that_nobody_knows_are_no_healthy_nodes(
    is_down: bool, root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, run_record("n1"))
    slurm.error = DOWN if is_down else None
    assert run(root, "nodes", "-w", "zz,n7") == 20
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "-w zz,n7: no run of such a node is on record" in captured.err
    assert ("Slurm knows none of them" in captured.err) != is_down


def test_known_names_without_a_run_are_told_as_such(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, run_record("n1"))
    assert run(root, "nodes", "-w", "n10") == 0
    assert capsys.readouterr().out == "None of these nodes is on record.\n\n  not on record: n10\n"


def test_each_node_is_counted_once(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, run_record("n1"), run_record("n10", ago_s=9000))
    lose_gpu(root)
    slurm.known["n2"] = drained("n2", "SG:gpu_count.lost gpu3")
    assert run(root, "nodes") == 1
    assert capsys.readouterr().out.startswith("3 nodes: 1 with open faults, 1 silent, 1 clean\n")


@pytest.mark.parametrize("switch", ["etc/slurm-guard/disabled", "run/slurm-guard/disabled"])
def test_a_kill_switch_of_this_host_is_told(
    switch: str, root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, run_record("n1"))
    (root / "etc/slurm-guard").mkdir(parents=True)
    (root / "etc/slurm-guard/node.json").write_text('{"node": "n1"}')
    (root / switch).parent.mkdir(parents=True, exist_ok=True)
    (root / switch).touch()
    said = f"n1: its hooks are switched off by {root}/{switch}"
    for words in (["nodes"], ["node", "n1"], ["nodes", "--json"]):
        assert run(root, *words) == 0
        assert said in capsys.readouterr().err


def test_another_cluster_s_nodes_are_not_compared_with_this_slurm_s(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, run_record("n1"), run_record("m1", cluster="annex"))
    found = answer(capsys, root, 0, "nodes", "-M", "annex")
    assert ([one["node"] for one in found["nodes"]], found["not_in_slurm"]) == (["m1"], [])
    assert "lab's and not annex's" in found["slurm_problem"]


def test_choices_that_mean_nothing(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(root, "nodes", "-w", "n[1-") == 2
    assert run(root, "nodes", "-p", "main", "--no-slurm") == 2
    assert slurm.calls == 0
    assert run(root, "nodes", "-p", "debug") == 20
    assert "no node in such a partition; known: main" in capsys.readouterr().err
    slurm.error = DOWN
    assert run(root, "nodes", "-p", "main") == 13
    assert "only Slurm knows partitions" in capsys.readouterr().err


def test_without_slurm_the_records_answer(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    lose_gpu(root)
    slurm.error = DOWN
    assert run(root, "nodes") == 1
    captured = capsys.readouterr()
    assert "gpu_count.lost gpu3" in captured.out
    assert captured.err == f"sguard: without Slurm's own states: {DOWN}\n"
    calls = slurm.calls
    assert run(root, "nodes", "--no-slurm") == 1
    assert capsys.readouterr().err == ""
    assert slurm.calls == calls


def test_slurms_long_words_are_one_sentence(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.error = SlurmUnreachableError(LONG_WORDS)
    put(root, run_record("n1"))
    brief = "sinfo: Could not find a configuration (exit status 1)"
    assert run(root, "nodes") == 0
    assert capsys.readouterr().err == f"sguard: without Slurm's own states: {brief}\n"
    assert answer(capsys, root, 0, "nodes")["slurm_problem"] == LONG_WORDS
    assert run(root, "drain", "n1", "text") == 14
    assert capsys.readouterr().err == f"sguard: {brief}\n"
    assert run(root, "job", "12") == 20
    assert "look_up" not in capsys.readouterr().err


def test_records_from_before_the_first_plan_do_not_double_a_node(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, run_record("n2", cluster="", ago_s=900))
    lose_gpu(root)
    slurm.known["n2"] = drained("n2", "SG:gpu_count.lost gpu3")
    assert [one["cluster"] for one in answer(capsys, root, 1, "nodes")["nodes"]] == ["lab"]
    assert answer(capsys, root, 1, "node", "n2")["cluster"] == "lab"
    assert len(answer(capsys, root, 1, "drains")["drains"]) == 1
    assert run(root, "resume", "n2") == 1
    assert "is open on record" in capsys.readouterr().err
