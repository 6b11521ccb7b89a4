"""`sguard drain` and `sguard resume`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from slurm_guard.cli.main import main
from slurm_guard.core.errors import SlurmRefusedError, SlurmUnreachableError
from tests.unit.cli.slurm_stub import action, drained, finding, put, run_record

if TYPE_CHECKING:
    from pathlib import Path

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


def test_what_was_done_by_hand_is_on_record(
    root: Path, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(root, "drain", "n2", "gpu_count.lost", "--device", "gpu3") == 0
    capsys.readouterr()
    assert run(root, "drains", "--history", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)["history"]
    assert (row["node"], row["action"], row["by"], row["outcome"]) == ("n2", "drain", "cli", "done")
    assert row["user"]
