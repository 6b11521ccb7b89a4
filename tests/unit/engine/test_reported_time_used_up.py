"""A run whose time is used up says what it did not read: unknown, never pass, and no hang without proof."""

from __future__ import annotations

import json
import sys
import threading
import types
from typing import TYPE_CHECKING, Any

import pytest

import slurm_guard.checks.fs_mounts  # noqa: F401  # it takes a table from the real probe
from slurm_guard.core import plan as plans
from slurm_guard.core.context import Context
from slurm_guard.core.outcome import Facts
from slurm_guard.core.paths import Places
from slurm_guard.engine import record, run_once, runner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from slurm_guard.engine.reading import Reading
    from slurm_guard.engine.run_once import RunOutcome

USED_UP = "not read: the time for this run was used up"


def forever(*_: object) -> Any:
    threading.Event().wait()


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def make(name: str, **functions: Any) -> None:
        module = types.ModuleType(f"slurm_guard.probes.{name}")
        for function, body in functions.items():
            setattr(module, function, body)
        monkeypatch.setitem(sys.modules, module.__name__, module)

    return make


def mounts_of(steps: dict[str, Callable[[], Any]]) -> Callable[..., Iterator[tuple[str, Callable[[], Any]]]]:
    def stream(places: Places, request: Facts) -> Iterator[tuple[str, Callable[[], Any]]]:
        for path, step in steps.items():
            if path not in request.skip:
                yield path, step

    return stream


def answers(path: str) -> Callable[[], Any]:
    facts = {"key": path, "path": path, "mounted": True, "hung": False, "error": "", "automount": False}
    facts.update(type="xfs", options=["rw"], super_options=["rw"], source="/dev/x", answered=True, space=None)
    return lambda: facts


def look(root: Path, only: list[str], deadline_s: float, hook: str = "prolog") -> tuple[RunOutcome, Any]:
    """One run of these checks with so much time, and its record."""
    plan = plans.Plan({}, "n1")
    plan.expected = {"mounts": [{"path": f"/m{n}", "type": "xfs"} for n in range(4)]}
    places, context = Places(str(root)), Context(hook, {"SLURMD_NODENAME": "n1", "SLURM_JOB_ID": "7"})
    outcome = run_once.run_checks(places, plan, context, only=only, deadline_s=deadline_s)
    found = record.of_run(outcome, places, plan, context, [], [])
    return outcome, json.loads(json.dumps(found))


def statuses(outcome: RunOutcome, check: str) -> dict[str, str]:
    result = next(one for one in outcome.results if one.check == check)
    return {one.device or "": one.status for one in result.findings}


def test_mounts_that_were_not_reached_are_unknown_and_named(
    tmp_path: Path, probe: Callable[..., None]
) -> None:
    """Two mounts hang, the time is over: the first answer stands, the last mount was never looked at."""
    steps = {"/m0": answers("/m0"), "/m1": forever, "/m2": forever, "/m3": answers("/m3")}
    probe("mounts", stream=mounts_of(steps))
    outcome, written = look(tmp_path, ["fs_mounts"], 2.0)
    assert statuses(outcome, "fs_mounts") == {
        "/m0": "pass",
        "/m1": "unknown",
        "/m2": "unknown",
        "/m3": "unknown",
    }
    assert outcome.status == "unknown"
    assert written["coverage"] == {"/m1": "hung", "/m2": "hung", "mounts": USED_UP}
    assert written["passed"] == []


def test_what_was_found_before_the_time_was_over_is_kept(tmp_path: Path, probe: Callable[..., None]) -> None:
    """The new child has not asked anything yet when the time ends: the hang before it still counts."""
    steps = {"/m0": forever, "/m1": answers("/m1"), "/m2": answers("/m2"), "/m3": answers("/m3")}
    slow = mounts_of(steps)

    def stream(places: Places, request: Facts) -> Iterator[tuple[str, Callable[[], Any]]]:
        if request.skip:
            forever()
        yield from slow(places, request)

    probe("mounts", stream=stream)
    outcome, written = look(tmp_path, ["fs_mounts"], 2.0)
    assert [one.key for one in outcome.reading.hangs] == ["/m0"]
    assert statuses(outcome, "fs_mounts")["/m0"] == "unknown"
    assert written["coverage"]["mounts"] == USED_UP
    assert {one.device for one in outcome.findings} == {"/m0", "/m1", "/m2", "/m3"}


def test_a_mount_that_has_answered_is_not_blamed_for_the_next(
    tmp_path: Path, probe: Callable[..., None]
) -> None:
    """The pause is between two mounts."""

    def stream(places: Places, request: Facts) -> Iterator[tuple[str, Callable[[], Any]]]:
        yield "/m0", answers("/m0")
        forever()

    probe("mounts", stream=stream)
    outcome, written = look(tmp_path, ["fs_mounts"], 2.0)
    assert statuses(outcome, "fs_mounts")["/m0"] == "pass"
    assert outcome.reading.hangs == []
    assert written["coverage"]["mounts"] == USED_UP


def test_probes_behind_a_slow_one_are_unknown_with_the_reason(
    tmp_path: Path, probe: Callable[..., None]
) -> None:
    probe("infiniband", read=forever)
    probe("procfs", read=lambda places, request: {"meminfo": {"MemTotal": 1 << 30}})
    outcome, written = look(tmp_path, ["ib_link", "memory_size"], 1.5)
    assert {one.check: one.status for one in outcome.results} == {
        "ib_link": "unknown",
        "memory_size": "unknown",
    }
    assert written["coverage"] == {"infiniband": "hung", "procfs": USED_UP}
    assert USED_UP in next(one for one in outcome.findings if one.check == "memory_size").message


def test_a_child_that_never_came_to_its_question_is_late_and_no_hang(
    monkeypatch: pytest.MonkeyPatch, probe: Callable[..., None]
) -> None:
    """A loaded node: twice in a row it must not count as a hanging driver."""
    probe("nvml", read=lambda places, request: {})
    monkeypatch.setattr(runner, "_read_all", lambda *args: forever())
    reading = runner.read(["nvml"], Places("/"), Facts(), deadline_s=0.2, patience_s=0.2)
    assert reading.hangs == []
    assert reading.problems == {"nvml": USED_UP}


def test_a_driver_that_was_asked_and_does_not_answer_is_a_hang(probe: Callable[..., None]) -> None:
    probe("nvml", read=forever)
    reading = runner.read(["nvml"], Places("/"), Facts(), deadline_s=0.2, patience_s=0.2)
    assert [(one.probe, one.key) for one in reading.hangs] == [("nvml", "")]


@pytest.mark.parametrize("hook", sorted(run_once.SHARE))
def test_checks_get_a_share_of_the_hooks_time_whatever_hangs(
    tmp_path: Path, probe: Callable[..., None], monkeypatch: pytest.MonkeyPatch, hook: str
) -> None:
    monkeypatch.setitem(plans.DEADLINES, hook, 1.0)
    probe("nvml", read=forever)
    given: list[float] = []
    real = runner.read

    def read(*args: Any, **options: Any) -> Reading:
        given.append(options["deadline_s"])
        return real(*args, **{**options, "deadline_s": 0.2})

    monkeypatch.setattr(runner, "read", read)
    plan = plans.Plan({}, "n1")
    context = Context(hook, {"SLURMD_NODENAME": "n1"})
    outcome = run_once.run_checks(Places(str(tmp_path)), plan, context, only=["nvml"])
    assert given == [plan.deadlines[hook] * run_once.SHARE[hook]]
    assert given[0] < plan.deadlines[hook]
    assert [one.status for one in outcome.results] == ["unknown"]
