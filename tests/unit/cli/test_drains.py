"""`sguard drains`: what is out because of us, what is not ours any more, what comes next, what was done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.cli.asking import DOWN, LOST, answer, lose_gpu, run
from tests.unit.cli.slurm_stub import action, drained, finding, idle, put, put_plan, run_record

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


def test_a_text_of_one_s_own_is_no_drain_of_the_guard_s(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = action("drain", "", "", ago_s=30, reason="my fan")
    put(root, run_record("n1", ago_s=60), run_record("n1", ago_s=29, actions=[mine]))
    slurm.known["n1"] = drained("n1", "my fan")
    assert run(root, "drains") == 1
    page = capsys.readouterr().out
    assert page.startswith(
        "No node is drained by slurm_guard.\nDRAINED WITH A REASON OF SOMEBODY'S OWN: 1 node"
    )
    assert page.count("'my fan'") == 1
    assert "`scontrol update nodename=n1 state=resume`" in " ".join(page.split())
    assert run(root, "nodes") == 1
    page = capsys.readouterr().out
    assert page.startswith("1 node: 1 drained without one\n")
    assert "none; drained: my fan" in page
    slurm.error = DOWN
    assert run(root, "drains") == 1
    assert "DRAINED BY SLURM_GUARD" not in capsys.readouterr().out


def test_a_drain_that_a_later_one_replaced_is_not_credited(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = action("drain", "", "", ago_s=900, reason="my fan")
    put(root, run_record("n2", ago_s=899, actions=[mine]))
    lose_gpu(root)
    slurm.known["n2"] = drained("n2", "SG:gpu_count.lost gpu3")
    (one,) = answer(capsys, root, 1, "drains")["drains"]
    assert one["guard"] == 'healthcheck drained n2 "SG:gpu_count.lost gpu3"'
    assert answer(capsys, root, 1, "node", "n2")["guard"] == one["guard"]
    slurm.known["n2"] = drained("n2", "bad fan", "alice")
    (one,) = answer(capsys, root, 1, "drains")["drains"]
    assert (one["guard"], one["ours"]) == (None, False)
    slurm.known["n2"] = drained("n2", "SG:gpu_count.lost gpu3 T-9", "alice")
    (one,) = answer(capsys, root, 1, "drains")["drains"]
    assert one["guard"] == 'healthcheck drained n2 "SG:gpu_count.lost gpu3"'
    slurm.error = DOWN
    (one,) = answer(capsys, root, 1, "drains")["drains"]
    assert one["guard"] == 'healthcheck drained n2 "SG:gpu_count.lost gpu3"'


def test_a_refusal_s_drain_that_slurm_words_itself_is_credited(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = finding(*LOST)
    refused = action("refuse", *LOST, ago_s=30, job_id=9)
    put(root, run_record("n2", lost, ago_s=31, actions=[refused]))
    slurm.known["n2"] = drained("n2", "Prolog error")
    (one,) = answer(capsys, root, 1, "drains")["drains"]
    assert "refused job 9" in one["guard"]


def test_since_is_told_from_the_new_break(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    def since() -> tuple[int, str]:
        (fault,) = answer(capsys, root, 1, "node", "n2")["open_faults"]
        return fault["times"], fault["since"]

    put(root, *(run_record("n2", finding(*LOST), ago_s=ago) for ago in (1800, 1500, 1200)))
    assert since()[0] == 3
    put(root, run_record("n2", ago_s=900, passed=["gpu_count"]), run_record("n2", finding(*LOST), ago_s=600))
    times, began = since()
    assert times == 1
    put(root, run_record("n2", finding(*LOST), ago_s=300))
    assert since() == (2, began)
    put(root, run_record("n2", ago_s=200, actions=[action("resume", *LOST, ago_s=200)]))
    put(root, run_record("n2", finding(*LOST), ago_s=100))
    assert since()[0] == 1
    put(root, run_record("n2", finding(*LOST), ago_s=80, actions=[action("resume", *LOST, ago_s=50)]))
    assert since()[0] == 2  # put back by force: no run has seen it since, and it is open all the same


def test_what_a_site_switched_off_calls_for_no_drain(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    decided = {"action": "tell", "fault": LOST[0], "device": LOST[1], "mode": "off", "why": "tier DRAIN; off"}
    put(root, run_record("n2", finding(*LOST), decisions=[decided]))
    assert answer(capsys, root, 0, "drains")["not_drained"] == []
    (fault,) = answer(capsys, root, 1, "node", "n2")["open_faults"]
    assert (fault["switched_off"], fault["guard"]) == (True, "nothing: tier DRAIN; off")
    assert fault["next"].startswith("nothing by itself in mode off; by hand: ")


def test_an_event_stays_open_since_it_happened(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    xid = finding("gpu_xid.79", "gpu3", event=True)
    put(root, run_record("n2", xid, ago_s=1800), run_record("n2", ago_s=900, passed=["gpu_xid"]))
    put(root, run_record("n2", xid, ago_s=600))
    (fault,) = answer(capsys, root, 1, "node", "n2")["open_faults"]
    assert fault["times"] == 2


def test_what_is_no_node_of_slurm_s_is_neither_counted_nor_missed(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, run_record("n1", ago_s=60))
    lose_gpu(root, "vm")
    assert run(root, "nodes") == 0
    page = capsys.readouterr().out
    assert page.startswith("1 node: 1 clean\n")
    assert "in no partition of Slurm's, so not counted: vm" in page
    found = answer(capsys, root, 0, "nodes")
    assert (found["not_in_slurm"], [one["node"] for one in found["nodes"]]) == (["vm"], ["n1"])
    assert answer(capsys, root, 0, "drains")["not_drained"] == []
    assert run(root, "node", "vm") == 1
    assert "no such node in any partition" in capsys.readouterr().out
    slurm.error = DOWN
    assert run(root, "nodes") == 1
    assert capsys.readouterr().out.startswith("2 nodes: 1 with open faults, 1 clean")


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
        "2 nodes would have been drained in the last 7 days (mode observe): see --history\n"
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
