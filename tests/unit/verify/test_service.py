"""The order of a verification, and what stands after each way in which it can break."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from slurm_guard.core.errors import SlurmError, SlurmUnreachableError
from slurm_guard.core.paths import Places
from slurm_guard.core.plan import Plan
from slurm_guard.slurm.command import Reply
from slurm_guard.slurm.gateway import NodeState
from slurm_guard.slurm.reserving import Reservation, ReservingGateway
from slurm_guard.verify import Subject, fence, service, verify

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REASON = "SG:heat.hot fan2"
PLAN = Plan({}, "g1")
CLEAN = {"kind": "check_run", "node": "g1", "plan": {"state": "ok"}, "passed": ["heat"], "skipped": []}


class Slurm(ReservingGateway):
    """One node and its reservations in memory; `before` is called with each call's name and may raise."""

    def __init__(self) -> None:
        super().__init__()
        self.known = self.drained(REASON)
        self.held: dict[str, Reservation] = {}
        self.answer: dict[str, Any] = {**CLEAN, "results": []}
        self.before: Callable[[str], None] = lambda name: None
        self.done: list[str] = []
        self.needs_fence = True

    def drained(self, reason: str, *flags: str) -> NodeState:
        now = int(time.time())
        return NodeState("g1", "idle", ["DRAIN", *flags], reason=reason, reason_user="root", reason_time=now)

    def _called(self, name: str) -> None:
        self.calls += 1
        self.before(name)
        self.done.append(name)

    def node(self, name: str, deadline: float = 3.0) -> NodeState:
        self._called("node")
        flags = {*self.known.flags, *(["MAINTENANCE"] if self.held else [])}
        told = {
            "reason": self.known.reason,
            "reason_user": self.known.reason_user,
            "reason_time": self.known.reason_time,
        }
        return NodeState(name, self.known.base, flags, **told, read_at=time.monotonic())

    def drain(self, name: str, reason: str, deadline: float = 3.0, comment: str | None = None) -> None:
        self._called("drain")
        self.known = self.drained(reason)

    def resume(self, name: str, deadline: float = 3.0, comment: str | None = None) -> None:
        self._called("resume")
        assert self.held or not self.needs_fence, "opened without a fence"
        self.known = NodeState("g1", "idle")

    def reservations(self, deadline: float = 3.0) -> list[Reservation]:
        self._called("reservations")
        return list(self.held.values())

    def reserve(self, name: str, node: str, deadline: float = 3.0) -> None:
        self._called("reserve")
        self.held[name] = Reservation(
            name, [node], ["root"], ["MAINT", "IGNORE_JOBS", "SPEC_NODES"], "ACTIVE"
        )

    def unreserve(self, name: str, deadline: float = 3.0) -> None:
        self._called("unreserve")
        self.held.pop(name, None)

    def cancel_in(self, name: str, deadline: float = 3.0) -> None:
        self._called("cancel")

    def run_in(self, name: str, node: str, argv: list[str], patience_s: float, seconds: float) -> Reply:
        self._called("run")
        return Reply(0, json.dumps(self.answer).encode(), "")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_PATIENCE_S", 0.05)
    monkeypatch.setattr(service, "_PAUSE_S", 0.001)
    monkeypatch.setattr(fence, "_ENDING_S", 0.05)
    monkeypatch.setattr(fence, "_PAUSE_S", 0.001)


def run(slurm: Slurm, root: Path, written: str | None = REASON) -> service.Verified:
    return verify(slurm, Places(str(root)), PLAN, Subject("g1", written, frozenset({"heat"})))


def test_fenced_opened_proven_and_open_to_all(tmp_path: Path) -> None:
    slurm = Slurm()
    done = run(slurm, tmp_path)
    assert (done.outcome.outcome, done.outcome.written, slurm.held) == ("done", True, {})
    assert not slurm.known.drained
    order = [name for name in slurm.done if name not in ("node", "reservations")]
    assert order == ["reserve", "resume", "run", "cancel", "unreserve"]
    assert done.outcome.calls == len(slurm.done)


def test_not_proven_is_drained_again_before_the_fence_goes(tmp_path: Path) -> None:
    slurm = Slurm()
    slurm.answer["passed"] = []
    done = run(slurm, tmp_path)
    assert (done.outcome.outcome, slurm.known.reason, slurm.held) == ("held", REASON, {})
    assert slurm.done.index("drain") < slurm.done.index("unreserve")


CALLS = ["node", "reservations", "reserve", "resume", "run", "drain", "cancel", "unreserve"]


@pytest.mark.parametrize("proven", [True, False])
@pytest.mark.parametrize("error", [SlurmUnreachableError("no answer"), KeyboardInterrupt()])
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5])
def test_whatever_breaks_once_an_unproven_node_is_fenced_or_drained(
    tmp_path: Path, name: str, nth: int, error: BaseException, proven: bool
) -> None:
    slurm, left = Slurm(), [nth]
    slurm.answer["passed"] = ["heat"] if proven else []

    def breaks(call: str) -> None:
        left[0] -= call == name
        if call == name and left[0] == 0:
            raise error

    slurm.before = breaks
    try:
        done = run(slurm, tmp_path)
        assert done.outcome.outcome == "done" or slurm.known.drained or slurm.held
    except KeyboardInterrupt:
        assert isinstance(error, KeyboardInterrupt)
    assert slurm.known.drained or slurm.held or (proven and "run" in slurm.done)
    # The next call finds whatever was left, and is not disturbed by it.
    slurm.before, stood = (lambda call: None), bool(slurm.held) or slurm.known.drained
    again = run(slurm, tmp_path)
    assert slurm.held == {}
    assert slurm.known.drained is not proven
    assert (again.outcome.outcome == "done") is (proven and stood)


def test_an_admin_who_drains_meanwhile_keeps_the_node_and_the_reason(tmp_path: Path) -> None:
    slurm = Slurm()

    def drains(call: str) -> None:
        if call == "run":
            slurm.known = slurm.drained("DIMM swap")

    slurm.before = drains
    done = run(slurm, tmp_path)
    assert (done.outcome.outcome, slurm.known.reason, slurm.held) == ("held", "DIMM swap", {})
    assert "drain" not in slurm.done


def test_a_prolog_that_refuses_our_own_job_leaves_no_other_reason(tmp_path: Path) -> None:
    slurm = Slurm()

    def refuses(call: str) -> None:
        if call == "run":
            slurm.known = slurm.drained("Prolog error")
            slurm.answer = {}

    slurm.before = refuses
    assert run(slurm, tmp_path).outcome.outcome == "held"
    assert (slurm.known.reason, slurm.held) == (REASON, {})


@pytest.mark.parametrize(
    ("state", "written", "says"),
    [
        (NodeState("g1", "idle"), None, "not drained"),
        (NodeState("g1", "idle", ["DRAIN"], reason="DIMM swap", reason_user="root"), None, "not ours"),
        (NodeState("g1", "idle", ["DRAIN"], reason=REASON, reason_user="ada"), None, "ada"),
        (
            NodeState("g1", "idle", ["DRAIN"], reason=REASON, reason_user="root"),
            "SG:heat.hot fan3",
            "not ours",
        ),
        (NodeState("g1", "mixed", ["DRAIN"], reason=REASON, reason_user="root"), None, "jobs still run"),
        (
            NodeState("g1", "idle", ["DRAIN", "POWERED_DOWN"], reason=REASON, reason_user="root"),
            None,
            "power",
        ),
    ],
)
def test_what_is_not_ours_is_not_even_fenced(
    tmp_path: Path, state: NodeState, written: str | None, says: str
) -> None:
    slurm = Slurm()
    slurm.known = state
    done = run(slurm, tmp_path, written)
    assert done.outcome.outcome == "held"
    assert says in done.outcome.why
    assert set(slurm.done) <= {"node", "reservations"}


FOREIGN = [
    Reservation("care", ["g1"], ["root"], ["MAINT", "IGNORE_JOBS"], "ACTIVE"),
    Reservation("sguard_verify/g1/0011aabb/SG:heat.hot", ["g1"], ["ada"], ["MAINT", "IGNORE_JOBS"], "ACTIVE"),
    Reservation(
        "sguard_verify/g1/0011aabb/SG:heat.hot", ["g1", "g2"], ["root"], ["MAINT", "IGNORE_JOBS"], ""
    ),
    Reservation("sguard_verify/g1/0011aabb/SG:heat.hot", ["g1"], ["root"], ["MAINT"], "ACTIVE"),
    Reservation("sguard_verify/g1/0011aabb/my%20own", ["g1"], ["root"], ["MAINT", "IGNORE_JOBS"], "ACTIVE"),
    Reservation("sguard_verify/g1/01/SG:heat.hot", ["g1"], ["root"], ["MAINT", "IGNORE_JOBS"], "ACTIVE"),
]


@pytest.mark.parametrize("foreign", FOREIGN)
def test_a_foreign_reservation_is_neither_removed_nor_broken_into(
    tmp_path: Path, foreign: Reservation
) -> None:
    slurm = Slurm()
    slurm.held[foreign.name] = foreign
    assert run(slurm, tmp_path).outcome.outcome == "held"
    assert slurm.held == {foreign.name: foreign}
    assert set(slurm.done) <= {"node", "reservations"}


@pytest.mark.parametrize(
    "reason", [REASON, "SG:fs_mounts.hung /scratch", "SG:ib_link.down mlx5_0/1", "SGJ:mem"]
)
def test_the_name_of_a_fence_holds_the_reason(reason: str) -> None:
    name = fence.new_name("g1", reason)
    one = Reservation(name, ["g1"], ["root"], ["MAINT", "IGNORE_JOBS", "SPEC_NODES"], "ACTIVE")
    assert (fence.reason_of(one, "g1"), fence.reason_of(one, "g2")) == (reason, None)
    assert " " not in name


@pytest.mark.parametrize("proven", [True, False])
def test_where_no_job_is_needed_the_node_stays_drained_until_it_is_proven(
    tmp_path: Path, proven: bool
) -> None:
    slurm, asked = Slurm(), []
    slurm.needs_fence = False
    slurm.answer["passed"] = ["heat"] if proven else []

    def ask(argv: list[str]) -> Reply:
        assert slurm.known.drained
        asked.append(argv)
        return Reply(0, json.dumps(slurm.answer).encode(), "")

    done = verify(slurm, Places(str(tmp_path)), PLAN, Subject("g1", REASON), ask)
    assert done.outcome.outcome == ("done" if proven else "held")
    assert slurm.known.drained is not proven
    assert {"reserve", "run", "drain"}.isdisjoint(slurm.done)
    assert asked[0][1:] == [
        *("check", "run", "--hook", "healthcheck", "--json", "--record", "-w", "g1", "--root", str(tmp_path))
    ]


def test_a_fence_that_stays_is_told_and_the_node_counts_as_unproven(tmp_path: Path) -> None:
    slurm = Slurm()

    def stuck(call: str) -> None:
        if call == "unreserve":
            raise SlurmError("Requested reservation is in use")

    slurm.before = stuck
    done = run(slurm, tmp_path)
    assert done.outcome.outcome == "failed"
    assert "still keeps jobs off g1" in done.outcome.why
