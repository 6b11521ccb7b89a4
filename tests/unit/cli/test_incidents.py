"""`sguard incidents` and `sguard incident`: what is wrong now, and what people say of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.cli.asking import LOST, answer, lose_gpu, run
from tests.unit.cli.slurm_stub import action, finding, put, run_record

if TYPE_CHECKING:
    from pathlib import Path

XID = ("gpu_xid.79", "gpu3")


def test_no_incident(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(root, run_record("n1"))
    assert run(root, "incidents") == 0
    assert capsys.readouterr().out == "No incident.\n"


def test_an_incident_is_listed_and_shown_with_what_was_done(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lose_gpu(root, remedy="Reboot the node.")
    (one,) = answer(capsys, root, 1, "incidents")["incidents"]
    assert (one["fault"], one["nodes"], one["devices"], one["state"]) == (LOST[0], ["n2"], [LOST[1]], "open")
    number = str(one["id"])
    shown = answer(capsys, root, 1, "incident", "show", number)
    assert [(did["action"], did["outcome"]) for did in shown["actions"]] == [("drain", "done")]
    assert shown["remedy"] == "Reboot the node."
    assert run(root, "incident", "show", number) == 1
    page = capsys.readouterr().out
    assert page.startswith(f"Incident {number}, open: gpu_count.lost gpu3 on n2")
    assert 'drained n2 "SG:gpu_count.lost gpu3"' in page
    assert "repair: Reboot the node." in page


def test_states_and_nodes_choose(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lose_gpu(root, "n1")
    put(root, run_record("n2", finding("ib_link.down", "mlx5_0/1"), ago_s=400))
    put(root, *(run_record("n2", ago_s=ago, passed=["ib_link"]) for ago in (300, 200, 100)))

    def nodes(code: int, *arguments: str) -> list[str]:
        found = answer(capsys, root, code, "incidents", *arguments)["incidents"]
        return [name for one in found for name in one["nodes"]]

    assert nodes(1) == ["n1"]
    assert nodes(0, "--state", "resolved") == ["n2"]
    assert nodes(1, "--state", "all") == ["n1", "n2"]
    assert nodes(0, "--state", "all", "-w", "n[2-9]") == ["n2"]
    assert nodes(0, "--state", "acknowledged") == []
    assert nodes(0, "--state", "resolved", "-S", "now-1minutes") == []
    assert run(root, "incidents", "--state", "gone") == 2
    assert "expected one of open, acknowledged, resolved, all" in " ".join(capsys.readouterr().err.split())


def test_an_acknowledged_incident_no_longer_calls_and_a_closed_one_is_over(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, run_record("n2", finding(*XID, event=True), ago_s=600))
    (one,) = answer(capsys, root, 1, "incidents")["incidents"]
    number = str(one["id"])
    said = answer(capsys, root, 0, "incident", "ack", number, "-m", "RMA\x1b[2J is  on its way")
    assert (said["state"], said["text"]) == ("acknowledged", "RMA [2J is on its way")
    assert run(root, "incidents") == 0
    assert f"acknowledged by {said['by']}" in capsys.readouterr().out
    assert answer(capsys, root, 0, "incident", "close", number, "-m", "swapped")["state"] == "resolved"
    assert run(root, "incident", "show", number) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert f"{said['by']} acknowledged it: RMA [2J is on its way" in page
    assert f"{said['by']} closed it: swapped" in page
    for word in ("ack", "close"):
        assert run(root, "incident", word, number, "-m", "again") == 2
        assert "is resolved" in " ".join(capsys.readouterr().err.split())


def test_what_comes_back_after_it_was_closed_is_new_and_says_so(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, run_record("n2", finding(*XID, event=True), ago_s=600))
    (one,) = answer(capsys, root, 1, "incidents")["incidents"]
    answer(capsys, root, 0, "incident", "close", str(one["id"]), "-m", "swapped")
    put(root, run_record("n2", finding(*XID, event=True), ago_s=-60))
    (again,) = answer(capsys, root, 1, "incidents")["incidents"]
    assert again["id"] != one["id"]
    assert answer(capsys, root, 1, "incident", "show", str(again["id"]))["earlier"] == one["id"]


def test_the_audit_says_on_what_by_whom_and_what_slurm_answered(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = {"hash": "abcdef0123456789" * 2, "state": "stale", "problem": ""}
    failed = action("drain", *LOST, ago_s=30, outcome="failed", why="Slurm refused", answer="Invalid user id")
    put(root, run_record("n2", finding(*LOST), ago_s=31, actions=[failed], plan=plan))
    by_hand = {"kind": "action", "by": "cli", "user": "lena", "parent": None}
    back = action("resume", *LOST, ago_s=10)
    record = run_record("n2", ago_s=10, actions=[back])
    put(
        root,
        {key: record[key] for key in ("schema", "run_id", "cluster", "node", "started", "actions")} | by_hand,
    )
    found = answer(capsys, root, 0, "drains", "--history")
    resumed, drained = found["history"]
    assert (drained["finding"], drained["plan_hash"], drained["plan_state"]) == (
        "gpu3 is bad",
        plan["hash"],
        "stale",
    )
    assert (drained["answer"], drained["calls"], drained["guard_version"]) == ("Invalid user id", 2, "0")
    assert (resumed["user"], resumed["finding"], resumed["plan_hash"]) == ("lena", None, None)
    number = next(
        one["id"] for one in answer(capsys, root, 1, "incidents")["incidents"] if one["fault"] == LOST[0]
    )
    answer(capsys, root, 0, "incident", "ack", str(number), "-m", "on it")
    (word,) = answer(capsys, root, 0, "drains", "--history")["words"]
    assert (word["incident"], word["what"], word["text"]) == (number, "ack", "on it")
    assert run(root, "drains", "--history") == 0
    page = " ".join(capsys.readouterr().out.split())
    assert f"acknowledged incident {number}: on it" in page
    assert "on: gpu3 is bad by: plan abcdef01 (stale), slurm_guard 0; Slurm: Invalid user id" in page
    assert 'lena resumed n2, drained as "SG:gpu_count.lost gpu3" by: plan none' in page


def test_a_close_needs_its_reason_and_a_number_must_be_known(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, run_record("n1"))
    assert run(root, "incident", "close", "1") == 2
    for word in ("show", "ack"):
        assert run(root, "incident", word, "7") not in (0, 1, 2)
        assert "incident 7 is not on record" in capsys.readouterr().err


def test_the_budget_that_was_reached_shows_what_it_held(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = action("drain", *LOST, ago_s=30, outcome="held", limit="nodes", why="2 of at most 2 are drained")
    put(root, run_record("n2", finding(*LOST), ago_s=31, actions=[held]))
    found = answer(capsys, root, 1, "incidents")["incidents"]
    (budget,) = [one for one in found if one["fault"] == "budget.nodes"]
    shown = answer(capsys, root, 1, "incident", "show", str(budget["id"]))
    assert [(did["action"], did["outcome"], did["why"]) for did in shown["actions"]] == [
        ("drain", "held", "2 of at most 2 are drained")
    ]
    assert "[budget]" in shown["remedy"]
