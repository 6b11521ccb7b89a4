"""`sguard ready`: what keeps a node from taking jobs after a boot, and what does not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from slurm_guard.cli.main import main
from slurm_guard.core.check import CHECKS, Check, Fault, failed, passed, unknown
from tests.unit.cli.asking import answer
from tests.unit.cli.slurm_stub import put_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Script:
    """What the check of the test finds, look by look; the last one stays."""

    def __init__(self) -> None:
        self.looks: list[Callable[[], Any]] = [passed]
        self.count = 0

    def next(self) -> Any:
        self.count += 1
        return self.looks[min(self.count, len(self.looks)) - 1]()


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    """A check `gate` that finds what the test says, in a guard that has no other; nobody waits."""
    found = Script()

    class Gate(Check):
        """The gate is up."""

        name = "gate"
        probe = "procfs"
        faults = {  # noqa: RUF012 - as in the real checks
            "down": Fault("DRAIN", "down", remedy="Lift it.", grace=True),
            "slow": Fault("WARN", "slow"),
            "user": Fault("JOB", "a user's own fault"),
        }

        def judge(self, facts: Any, params: Any, expect: Any) -> Any:
            yield found.next()

    monkeypatch.setattr("slurm_guard.core.check.names", lambda: ["gate"])
    monkeypatch.setattr(time, "sleep", lambda _: None)
    yield found
    del CHECKS["gate"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node that was booted half a minute ago, in observe mode."""
    put_plan(tmp_path, default_profile={})
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("0c61\n")
    (tmp_path / "proc/uptime").write_text("30.00 1.00\n")
    return tmp_path


def down() -> Any:
    return failed("still down", code="down", device="east")


def _ask(capsys: pytest.CaptureFixture[str], root: Path, code: int, *more: str) -> dict[str, Any]:
    return answer(capsys, root, code, "ready", *more)


def test_a_node_that_is_in_order_is_ready_at_once(
    root: Path, script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _ask(capsys, root, 0)
    assert (found["ready"], found["holding"], found["unknown"]) == (True, [], [])
    assert script.count == 1


def test_what_would_drain_the_node_keeps_it_out_though_it_was_just_booted(
    root: Path, script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    script.looks = [down]
    found = _ask(capsys, root, 1)
    assert not found["ready"]
    assert [(one["fault"], one["device"], one["status"]) for one in found["holding"]] == [
        ("gate.down", "east", "fail")
    ]


def test_it_waits_until_all_is_there_and_says_what_it_waits_for(
    root: Path, script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    script.looks = [down, down, passed]
    assert main(["ready", "--root", str(root), "--wait", "60", "-w", "n7"]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("n7: ready after ")
    assert told.err.count("n7 waits for: gate.down east: still down") == 1
    assert script.count == 3


def test_when_the_time_is_up_it_says_what_is_missing_and_what_to_do(
    root: Path, script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    script.looks = [down]
    assert main(["ready", "--root", str(root), "--wait", "0.2", "-w", "n7"]) == 1
    told = capsys.readouterr()
    assert told.out.startswith("n7: not ready after ")
    assert "gate.down east: still down. Lift it." in told.err


def test_what_cannot_be_judged_is_waited_for_and_keeps_nobody_out(
    root: Path, script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    script.looks = [lambda: unknown("no answer"), passed]
    assert _ask(capsys, root, 0, "--wait", "60")["unknown"] == []
    script.looks, script.count = [lambda: unknown("no answer")], 0
    found = _ask(capsys, root, 0)
    assert [one["message"] for one in found["unknown"]] == ["no answer"]


@pytest.mark.parametrize("code", ["slow", "user"])
def test_what_drains_no_node_keeps_none_out(
    root: Path, script: Script, capsys: pytest.CaptureFixture[str], code: str
) -> None:
    script.looks = [lambda: failed("seen", code=code)]
    assert _ask(capsys, root, 0, "--wait", "60")["ready"]
    assert script.count == 1


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ({"fault": "gate", "action": "none"}, 0),
        ({"fault": "gate", "action": "tell"}, 0),
        ({"fault": "gate.down", "tier": "WARN"}, 0),
        ({"fault": "gate.down", "runs": 3, "of": 5}, 1),
        ({"fault": "gate.down", "minimum_s": 600}, 1),
    ],
)
def test_the_site_s_rules_have_a_say_but_proof_is_not_waited_for(
    root: Path, script: Script, capsys: pytest.CaptureFixture[str], rule: dict[str, Any], code: int
) -> None:
    put_plan(root, default_profile={"rules": [rule]})
    script.looks = [down]
    _ask(capsys, root, code)


def test_nothing_is_recorded(root: Path, script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    script.looks = [down]
    before = sorted(root.rglob("*"))
    _ask(capsys, root, 1)
    assert sorted(root.rglob("*")) == before


def test_a_broken_check_keeps_no_node_out(
    root: Path, script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    script.looks = [lambda: 1 / 0]
    (one,) = _ask(capsys, root, 0)["unknown"]
    assert "ZeroDivisionError" in one["message"]


def test_a_node_without_a_plan_is_judged_by_the_defaults_and_that_is_said(
    root: Path, script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "var/lib/slurm-guard/plan.json").unlink()
    assert main(["ready", "--root", str(root)]) == 0
    assert "no plan" in capsys.readouterr().err
