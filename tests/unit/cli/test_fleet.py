"""`sguard nodes`, `node`, `drains` and `ingest`: records and Slurm's word put together."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from slurm_guard.cli import results
from slurm_guard.cli.host import Host
from slurm_guard.cli.main import main
from slurm_guard.core.errors import SetupError, SlurmUnreachableError, StoreError
from tests.unit.cli.slurm_stub import action, drained, finding, idle, put, put_plan, run_record

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.slurm_stub import StubGateway

LOST = ("gpu_count.lost", "gpu3")
LONG_WORDS = (
    "sinfo: sinfo: error: look_up: no such host sinfo: error: fetch: it failed "
    "sinfo: fatal: Could not find a configuration (exit status 1)"
)
DOWN = SlurmUnreachableError("sinfo gave no answer within 5 s")


def run(root: Path, *arguments: str) -> int:
    return main([*arguments, "--root", str(root)])


def answer(capsys: pytest.CaptureFixture[str], root: Path, code: int, *arguments: str) -> dict[str, Any]:
    assert run(root, *arguments, "--json") == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["schema"] == "1.0"
    assert found["kind"]
    return found


def lose_gpu(root: Path, node: str = "n2", **fields: Any) -> None:
    """A run that lost a GPU and drained its node."""
    put(
        root,
        run_record(node, finding(*LOST, **fields), ago_s=600, actions=[action("drain", *LOST, ago_s=599)]),
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
        (["-w", "n77"], ([], ["n77"])),
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


def test_choices_that_mean_nothing(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(root, "nodes", "-w", "n[1-") == 2
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


@pytest.mark.parametrize("command", [["nodes"], ["node", "n1"], ["job", "12"]])
def test_a_cluster_that_nobody_knows(
    command: list[str], root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, run_record("n1"), run_record("n2", cluster="annex"))
    assert run(root, *command, "-M", "nope") == 20
    assert capsys.readouterr().err == "sguard: -M nope: no such cluster on record; known: annex, lab\n"


@pytest.mark.parametrize(
    ("command", "code"), [(["nodes"], 0), (["drains"], 0), (["node", "n1"], 20), (["job", "12"], 20)]
)
def test_a_question_leaves_nothing_on_a_bare_host(
    command: list[str], code: int, tmp_path: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, *command) == code
    spool = tmp_path / "var/lib/slurm-guard/spool"
    assert f"nothing is on record: there is no spool at {spool}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


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


def test_the_local_spool_is_ingested_before_an_answer(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, run_record("n1"))
    (root / "var/lib/slurm-guard/spool/torn.json").write_text("{")
    assert run(root, "nodes") == 0
    assert "1 files were no records and were set aside" in capsys.readouterr().err
    assert list((root / "var/lib/slurm-guard/spool").glob("*.json")) == []


def test_a_spool_that_cannot_be_ingested_is_said_and_the_store_still_answers(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, run_record("n1"))
    assert run(root, "nodes") == 0

    def full(*_: Any) -> None:
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
    var = str(root / "var/lib/slurm-guard")
    monkeypatch.setattr(results.os, "access", Denied(var, os.X_OK))
    with pytest.raises(
        SetupError, match=r"only root may read results, so users need an admin .*; run `sguard` as root"
    ):
        results.open_results(Host(str(root)))


def test_a_host_without_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results.os, "access", Denied(str(tmp_path), os.W_OK))
    with pytest.raises(SetupError, match="no results on this host"):
        results.open_results(Host(str(tmp_path)))


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
