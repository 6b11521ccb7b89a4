"""What waits on disk is carried out only while it is still wanted; only what we drained is taken back."""

from __future__ import annotations

import types
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from slurm_guard.core.outcome import Finding
from slurm_guard.core.paths import Places
from slurm_guard.core.plan import Plan
from slurm_guard.core.policy import Decision
from slurm_guard.engine import act, answers, faults, files, requests, settle
from slurm_guard.engine.run import Run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOST = ("gpu_count.lost", "gpu3")
REASON = "SG:gpu_count.lost gpu3"


def a_run(root: Path, mode: str = "enforce", seen: bool = True, opened: bool = True, **state: Any) -> Run:
    """A healthcheck of a node with a lost GPU (or that had one), as it is once its record is written."""
    places, plan = (
        Places(str(root)),
        Plan({"nodes": {"n1": 0}, "profiles": [{"modes": [["*", "*", mode]]}]}, "n1"),
    )
    outcome: Any = types.SimpleNamespace(boot_id="b", run_id="r", given=[])
    context: Any = types.SimpleNamespace(hook="healthcheck", job_id=None, slurm_conf="")
    this = Run(places, plan, context, outcome)
    found = Finding("fail", "lost", code="lost", device="gpu3", tier="DRAIN", scope="device")
    found.check = "gpu_count"
    if seen:
        this.decisions = [Decision("drain", found, "DRAIN", mode, "")]

    def fill(known: faults.OpenFaults) -> None:
        if opened:
            tiers = {("gpu_count.lost", "gpu3"): "DRAIN"}
            known.update([found], {"gpu_count"}, tiers, "b", "t", counts=False)
        for name, value in state.items():
            setattr(known, name, value)

    faults.change(places, fill)
    return this


def a_request(kind: str = "drain", **fields: Any) -> dict[str, Any]:
    fields = {"fault": LOST[0], "device": LOST[1], "reason": REASON, "scope": "device", **fields}
    return requests.make(kind, boot_id="b", run_id="earlier", **fields)


CLAIM = {"reason": REASON, "fault": LOST[0], "device": LOST[1], "check": "gpu_count"}

#: kind of request, what the run and the node's faults are like, what becomes of the request
STANDING: list[tuple[str, str, dict[str, Any], str]] = [
    ("a fault that is seen again", "drain", {}, "true"),
    ("one that this run could not see", "drain", {"seen": False}, "waits"),
    ("one that is gone", "drain", {"seen": False, "opened": False}, "over"),
    ("a site that observes again", "drain", {"mode": "observe"}, "over"),
    ("a return of what we drained", "resume", {"opened": False, "drained": CLAIM}, "true"),
    ("a return of what we may have drained", "resume", {"opened": False, "asked": CLAIM}, "true"),
    ("a return while a fault is open", "resume", {"drained": CLAIM}, "over"),
    ("a return of what is not ours", "resume", {"opened": False}, "over"),
    (
        "a return where the site observes",
        "resume",
        {"opened": False, "drained": CLAIM, "mode": "observe"},
        "over",
    ),
]


@pytest.mark.parametrize(("case", "kind", "state", "expected"), STANDING, ids=[row[0] for row in STANDING])
def test_standing(tmp_path: Path, case: str, kind: str, state: dict[str, Any], expected: str) -> None:
    assert settle._standing(a_run(tmp_path, **state), a_request(kind)) == expected


def test_a_kill_switch_thrown_since_stops_what_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    this = a_run(tmp_path)
    requests.put(this.places, a_request())

    def thrown(*_: float) -> None:  # while the detached child waits its jitter
        files.write_json(this.places.kill_switches[1], {})

    def never(*_: object) -> None:
        raise AssertionError("Slurm was asked")

    monkeypatch.setattr(settle.time, "sleep", thrown)
    monkeypatch.setattr(answers, "drain", never)
    settle._carry_out(this)
    assert len(requests.waiting(this.places, "b")) == 1


def an_outcome(written: bool = True, recalled: bool = False, reason: str | None = None) -> act.Outcome:
    done = act.Outcome("done", "", 1)
    done.written, done.recalled, done.reason = written, recalled, reason
    return done


def test_what_another_run_was_told_a_moment_ago_is_no_drain_of_this_one(tmp_path: Path) -> None:
    """In between an admin may have resumed the node: a new event must not count as acted on."""
    this = a_run(tmp_path)
    settle._settle_request(this, a_request(), an_outcome(written=False, recalled=True))
    known = faults.load(this.places)
    assert known.drained is None
    assert not any(entry.get("acted") for entry in known.open.values())


@pytest.mark.parametrize(
    ("kind", "what", "written", "expected"),
    [
        ("drain", "done", True, True),
        ("drain", "done", False, False),
        ("resume", "withdrawn", True, True),
        ("drain", "failed", False, None),  # Slurm may have taken what it did not answer
        ("drain", "held", False, None),
        ("tell", "done", False, None),
    ],
)
def test_an_action_says_whether_it_changed_the_node(
    kind: str, what: str, written: bool, expected: bool | None
) -> None:
    done = act.Outcome(what, "", 1)
    done.written = written
    assert done.as_action(kind, a_request()).get("written") is expected


def test_another_runs_answer_is_taken_for_some_seconds_and_is_on_record_as_such(tmp_path: Path) -> None:
    this, wanted = a_run(tmp_path), a_request()
    answers._remember(this.places, wanted, an_outcome())
    known = answers.drain(this.places, None, this.plan, wanted, 1.0, [])  # type: ignore[arg-type]
    assert (known.recalled, known.as_action("drain", wanted)["written"]) == (True, False)
    assert str(known).endswith("(asked 0 s ago)")
    assert "ago" not in str(known.as_action("drain", wanted))


@pytest.mark.parametrize("change", [{"at": "noon"}, {"why": None, "what": ["done"]}, {"at": None}, {"at": 0}])
def test_an_answer_that_nobody_of_ours_wrote_is_not_taken(tmp_path: Path, change: dict[str, Any]) -> None:
    this, wanted = a_run(tmp_path), a_request()
    answers._remember(this.places, wanted, an_outcome())
    files.write_json(this.places.answer, {**files.read_json(this.places.answer), **change})
    assert answers._recall(this.places, wanted, 0.0) is None


@pytest.mark.parametrize(
    ("other", "seconds", "mine", "expected"),
    [
        (None, 3.0, False, ("failed", "Slurm does not answer another run of this node")),
        (None, 1.0, False, ("held", act.NO_TURN)),  # it may only be waiting for its turn
        (None, 0.1, True, ("held", act.NO_TURN)),
        ("held", 1.0, False, ("held", "as the other run was told")),
        ("failed", 1.0, False, ("failed", "as the other run was told")),
        ("failed", 0.1, True, ("failed", "as the other run was told")),
    ],
)
def test_who_waits_for_another_run_takes_over_its_answer_and_passes_no_budget_by(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    other: str | None,
    seconds: float,
    mine: bool,
    expected: tuple[str, str],
) -> None:
    """Sixty prologs at once must not refuse sixty jobs for a budget that one of them is just asking about."""
    this, wanted = a_run(tmp_path), a_request()

    @contextmanager
    def another_asks(path: str, patience_s: float) -> Iterator[bool]:
        if other:
            answers._remember(this.places, wanted, act.Outcome(other, "as the other run was told", 1))
        yield mine

    monkeypatch.setattr(answers.files, "locked", another_asks)
    done = answers.drain(this.places, None, this.plan, wanted, seconds, [])  # type: ignore[arg-type]
    assert (done.what, done.why) == expected


def test_a_failure_of_before_is_no_answer_to_a_new_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    this, wanted = a_run(tmp_path), a_request()
    answers._remember(this.places, wanted, act.Outcome("failed", "no answer", 1))
    monkeypatch.setattr(act, "drain", lambda *_: an_outcome())
    assert answers.drain(this.places, None, this.plan, wanted, 3.0, []).what == "done"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("done", "on_record"),
    [
        (an_outcome(), REASON),
        (an_outcome(written=False, reason="SG:ib_link.down mlx5_0/1"), "SG:ib_link.down mlx5_0/1"),
        (
            an_outcome(written=False, reason="SG:ib_link.down mlx5_0/1 : reboot issued"),
            "SG:ib_link.down mlx5_0/1",
        ),
        (an_outcome(written=False, reason="Prolog error"), REASON),
    ],
)
def test_the_reason_on_record_is_the_one_that_stands(
    tmp_path: Path, done: act.Outcome, on_record: str
) -> None:
    this = a_run(tmp_path, drained={**CLAIM, "reason": "SG:memory_size.low", "check": "memory_size"})
    settle._settle_request(this, a_request(), done)
    drained = faults.load(this.places).drained
    assert drained is not None
    assert drained["reason"] == on_record
    assert drained["check"] == on_record[3:].partition(".")[0]


def test_rules_that_say_no_end_the_claim_to_a_drain_that_was_never_written(tmp_path: Path) -> None:
    this = a_run(tmp_path, asked=CLAIM)
    settle._settle_request(this, a_request(), act.Outcome("failed", "no answer", 1))
    assert faults.load(this.places).asked == CLAIM
    settle._settle_request(this, a_request(), act.Outcome("held", "no room in the budget", 1))
    assert faults.load(this.places).asked is None


def test_waiting_for_another_run_and_asking_share_one_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 5: a refusing prolog spends 3 s on Slurm in all, also when it had to wait for its turn."""
    this, given = a_run(tmp_path), []

    @contextmanager
    def slow_lock(path: str, patience_s: float) -> Iterator[bool]:
        monkeypatch.setattr(answers.time, "monotonic", lambda: 1000.0 + 0.7 * patience_s)
        yield True

    def ask(*arguments: Any) -> act.Outcome:
        given.append(arguments[3])
        return an_outcome()

    monkeypatch.setattr(answers.time, "monotonic", lambda: 1000.0)
    monkeypatch.setattr(answers.files, "locked", slow_lock)
    monkeypatch.setattr(act, "drain", ask)
    answers.drain(this.places, None, this.plan, a_request(), 3.0, [])  # type: ignore[arg-type]
    assert given == [pytest.approx(0.9)]


@pytest.mark.parametrize(("left", "expected"), [(60.0, 3.0), (2.5, 1.5), (0.2, 0.5)])
def test_slurm_gets_no_more_time_than_the_hook_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: float, expected: float
) -> None:
    this = a_run(tmp_path)
    this.context.hook, this.ends = "prolog", 1000.0 + left
    monkeypatch.setattr(settle.time, "monotonic", lambda: 1000.0)
    assert settle._seconds(this) == pytest.approx(expected)
