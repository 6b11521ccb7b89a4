"""`sguard drain` and `sguard resume`."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from slurm_guard.cli import resume_proven
from slurm_guard.cli.main import main
from slurm_guard.core.errors import SlurmRefusedError, SlurmUnreachableError
from tests.unit.cli.slurm_stub import action, drained, finding, put, put_plan, run_record

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from tests.unit.cli.slurm_stub import StubGateway


def run(root: Path, *arguments: str) -> int:
    return main([*arguments, "--root", str(root)])


def test_drain_for_a_fault(root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(root, "drain", "n2", "gpu_count.lost", "--device", "gpu3", "--json") == 0
    assert slurm.written == [("drain", "n2", "SG:gpu_count.lost gpu3")]
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["node"], found["written"]) == ("drain", "n2", True)


def test_drain_with_a_text(root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(root, "drain", "n2", "fan", "is", "loud") == 0
    assert slurm.written == [("drain", "n2", "fan is loud")]
    assert capsys.readouterr().out == "n2: drained: fan is loud\n"


@pytest.mark.parametrize("words", [["SG:gpu_xid.79"], ["gpu_cuont.lost"], ["fan", "--device", "gpu1"], []])
def test_usage_errors_touch_nothing(
    words: list[str], root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(root, "drain", "n2", *words) == 2
    assert slurm.calls == 0
    capsys.readouterr()


def test_an_admins_node_is_an_ownership_error(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.known["n2"] = drained("n2", "waiting for parts", "alice")
    assert run(root, "drain", "n2", "gpu_count.lost") == 16
    assert run(root, "resume", "n2") == 16
    assert run(root, "resume", "n2", "--force") == 16
    assert slurm.written == []
    assert "'waiting for parts'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"), [(SlurmUnreachableError("no answer"), 14), (SlurmRefusedError("Invalid user id"), 15)]
)
def test_slurms_errors_have_their_codes(
    error: SlurmRefusedError, code: int, root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.error = error
    assert run(root, "drain", "n2", "text") == code
    assert run(root, "resume", "n2") == code
    assert capsys.readouterr().err == f"sguard: {error}\n" * 2


def test_resume_waits_for_open_faults_unless_forced(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.known["n2"] = drained("n2", "SG:gpu_count.lost gpu3")
    put(
        root,
        run_record(
            "n2", finding("gpu_count.lost", "gpu3"), actions=[action("drain", "gpu_count.lost", "gpu3")]
        ),
    )
    assert run(root, "resume", "n2") == 1
    assert slurm.written == []
    assert "gpu_count.lost gpu3 is open on record" in capsys.readouterr().err
    assert run(root, "resume", "n2", "--force") == 0
    assert slurm.written == [("resume", "n2", "")]


@pytest.mark.parametrize(
    ("fault", "options", "asked"),
    [
        ("ib_link.down", [], True),  # a state: its check is looked at
        ("gpu_xid.79", [], False),  # an event: no healthcheck proves it gone
        ("gpu_xid.79", ["--force"], True),
        ("gone_check.code", [], False),
    ],
)
def test_verify_is_asked_to_prove_what_is_open_but_no_event(
    fault: str,
    options: list[str],
    asked: bool,
    root: Path,
    slurm: StubGateway,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    put(root, run_record("n2", finding(fault, "x"), actions=[action("drain", fault, "x")]))
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(resume_proven, "run", lambda host, *rest, **how: calls.append((*rest, how)) or 0)
    assert run(root, "resume", "n2", "--verify", *options) == (0 if asked else 1)
    how = {"ssh": False, "as_json": False}
    wanted = ("n2", f"SG:{fault} x", frozenset({fault.partition(".")[0]}), how)
    assert calls == ([wanted] if asked else [])
    assert ("is open on record" in capsys.readouterr().err) is not asked
    assert slurm.written == []


def test_ssh_is_a_way_to_verify(root: Path, slurm: StubGateway) -> None:
    assert run(root, "resume", "n2", "--ssh") == 2
    assert slurm.calls == 0


def test_verify_needs_root(root: Path, slurm: StubGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    slurm.known["n2"] = drained("n2", "SG:ib_link.down x")
    assert run(root, "resume", "n2", "--verify") == 21
    assert slurm.written == []


def test_a_resume_that_waits_answers_in_json_too(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.known["n2"] = drained("n2", "SG:gpu_count.lost gpu3")
    put(root, run_record("n2", finding("gpu_count.lost", "gpu3"), finding("ib_link.down", "mlx5_0/1")))
    assert run(root, "resume", "n2", "--json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["kind"], answer["node"], answer["written"]) == ("resume", "n2", False)
    assert answer["why"] == "gpu_count.lost gpu3, ib_link.down mlx5_0/1 are open on record"
    assert slurm.written == []


def test_resume_of_a_clean_node(root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]) -> None:
    slurm.known["n2"] = drained("n2", "SG:gpu_count.lost gpu3")
    put(
        root,
        run_record(
            "n2",
            finding("gpu_count.lost", "gpu3"),
            ago_s=90,
            actions=[action("drain", "gpu_count.lost", "gpu3")],
        ),
        run_record("n2", ago_s=5),
    )
    assert run(root, "resume", "n2", "--json") == 0
    assert json.loads(capsys.readouterr().out)["written"] is True
    assert slurm.written == [("resume", "n2", "")]


def test_a_node_in_service_is_not_resumed_and_nothing_is_on_record(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(root, "resume", "n2") == 0
    assert capsys.readouterr().out == "nothing to do: n2 is IDLE: not drained, nothing to resume\n"
    assert run(root, "drains", "--history", "--json") == 0
    assert json.loads(capsys.readouterr().out)["history"] == []


def test_somebody_else_s_drain_names_the_command_that_ends_it(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.known["n2"] = drained("n2", "bad fan", "alice")
    assert run(root, "resume", "n2") == 16
    said = " ".join(capsys.readouterr().err.split())
    assert "drained with a reason that is not ours: 'bad fan'" in said
    assert "`scontrol update nodename=n2 state=resume`" in said


def test_a_device_is_compared_with_what_the_node_s_class_has(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = {"class": "2xT4", "expected": {"gpus": 2}}
    put_plan(root, profiles=[profile], nodes={"n2": 0})
    assert run(root, "drain", "n2", "gpu_xid.79", "--device", "gpu2") == 2
    assert "gpu0 to gpu1" in capsys.readouterr().err
    assert run(root, "drain", "n1", "gpu_xid.79", "--device", "gpu2") == 0


@pytest.mark.parametrize("words", [["drain", "n2", "bad fan"], ["resume", "n2"]])
def test_who_may_not_read_the_plan_is_told_so_in_one_line(
    words: list[str],
    root: Path,
    slurm: StubGateway,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = root / "var/lib/slurm-guard/plan.json"
    plan.write_text("{")  # not read to its end, as by one who may not
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(plan))
    assert run(root, *words) == 21
    assert capsys.readouterr().err == f"sguard: {plan}: only root may read the plan; run as root (sudo)\n"
    assert slurm.calls == 0


def test_what_was_done_by_hand_is_on_record(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(root, "drain", "n2", "gpu_count.lost", "--device", "gpu3") == 0
    capsys.readouterr()
    assert run(root, "drains", "--history", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)["history"]
    assert (row["node"], row["action"], row["by"], row["outcome"]) == ("n2", "drain", "cli", "done")
    assert row["user"]


def test_a_second_drain_does_not_stand_in_the_way_of_resume(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(root, "drain", "n2", "gpu_count.lost", "--device", "gpu3") == 0
    assert run(root, "drain", "n2", "please", "look") == 16
    assert "n2 is drained already, by root" in capsys.readouterr().err
    assert run(root, "drain", "n2", "gpu_count.lost", "--device", "gpu3") == 0
    assert capsys.readouterr().out.startswith("nothing to do: n2 is drained already, by root")
    assert run(root, "resume", "n2") == 0
    assert [one[0] for one in slurm.written] == ["drain", "resume"]


@pytest.mark.parametrize(
    "how",
    [
        {"why": "n2 is drained", "written": False},
        {"why": "n2 is drained; nothing to write"},  # as records said it before they had `written`
        {"why": "n2 is drained (asked 4 s ago)"},
    ],
)
def test_a_hooks_second_fault_does_not_stand_in_the_way_of_resume(
    how: dict[str, Any], root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.known["n2"] = drained("n2", "SG:gpu_count.lost gpu3")
    again = {**action("drain", "ib_link.down", "mlx5_0/1", ago_s=20), **how}
    put(
        root,
        run_record("n2", ago_s=90, actions=[action("drain", "gpu_count.lost", "gpu3", ago_s=89)]),
        run_record("n2", ago_s=21, actions=[again]),
    )
    assert run(root, "resume", "n2") == 0
    assert slurm.written == [("resume", "n2", "")]


def test_a_misspelt_fault_is_a_usage_error_with_the_nearest(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(root, "drain", "n2", "gpu_count.losst") == 2
    assert "did you mean gpu_count.lost?" in " ".join(capsys.readouterr().err.split())
    assert slurm.calls == 0


def test_a_drain_of_an_unknown_node_leaves_no_node(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(root, "drain", "nope", "text") == 15
    assert run(root, "nodes", "--json") == 0
    assert "nope" not in capsys.readouterr().out
