"""Orders carried out on a Slurm in memory: in how many calls, and what keeps hands off."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from slurm_guard.collector.node_plans import NodePlans
from slurm_guard.core import tag
from slurm_guard.store import Store
from tests.unit.collector.fake_slurm import (
    REASON,
    Slurm,
    actions,
    asking,
    ends,
    healthy,
    keep,
    loop_of,
    note,
    order_of,
    plan_in,
    states,
)

NAMES = tuple(f"n{number}" for number in range(1, 81))


def test_many_nodes_with_one_reason_cost_four_calls(store: Store, plans: NodePlans) -> None:
    slurm = Slurm(*NAMES)
    for name in NAMES[:12]:
        order_of(store, asking(name))
    assert loop_of(store, slurm, plans).round() == 12
    assert sorted(slurm.drained(REASON)) == sorted(NAMES[:12])
    assert [what for what, _ in slurm.log] == ["read", "read", "drain", "read"]
    assert set(states(store).values()) == {"done"}
    found = actions(store)
    assert len(found) == 12
    assert {one[1:3] for one in found} == {("drain", "done")}
    assert all(one[3]["written"] for one in found)
    assert [tag.parse(slurm.state[name]["comment"]) for name in NAMES[12:]] == [[]] * 68
    assert loop_of(store, slurm, plans).round() == 0


def test_the_note_names_jobs_and_users_unless_that_costs_too_many_calls(
    store: Store, plans: NodePlans
) -> None:
    slurm = Slurm(*NAMES)
    slurm.state["n2"]["comment"] = "rack 7, ask Ines"
    slurm.state["n3"]["comment"] = note(time.time() - 7200, [5])
    for number, name in enumerate(NAMES[:3]):
        order_of(store, asking(name, jobs={100 + number: 4000 + number}))
    loop = loop_of(store, slurm, plans)
    assert loop.round() == 3
    first, second, third = (slurm.state[name]["comment"] for name in NAMES[:3])
    assert [(one.jobs, one.users) for one in tag.parse(first) or []] == [((100,), (4000,))]
    assert second == "rack 7, ask Ines"
    assert [one.jobs for one in tag.parse(third) or []] == [(102,), (5,)]
    for number, name in enumerate(NAMES[10:30]):
        order_of(store, asking(name, jobs={200 + number: 5000 + number}))
    before = len(slurm.writes())
    assert loop.round() == 20
    assert len(slurm.writes()) == before + 1
    assert tag.parse(slurm.state["n15"]["comment"])[0].jobs == ()  # type: ignore[index]


THEIRS: list[tuple[str, dict[str, Any], str]] = [
    ("an admin's drain", {"flags": {"DRAIN"}, "reason": "DIMM swap", "user": "ines"}, "not ours"),
    ("an edit of ours", {"flags": {"DRAIN"}, "reason": f"{REASON} CASE-9", "user": "root"}, "not ours"),
    ("no reason", {"flags": {"DRAIN"}}, "without a reason"),
    ("down", {"base": "down", "reason": "Not responding"}, "DOWN"),
    ("maintenance", {"flags": {"MAINTENANCE"}}, "maintenance"),
    ("a reboot", {"flags": {"REBOOT_ISSUED"}}, "reboot"),
    ("asleep", {"flags": {"POWERED_DOWN"}}, "power"),
]


@pytest.mark.parametrize(("case", "state", "why"), THEIRS, ids=[one[0] for one in THEIRS])
def test_hands_off_what_is_somebody_else_s(
    store: Store, plans: NodePlans, case: str, state: dict[str, Any], why: str
) -> None:
    slurm = Slurm("n1", "n2")
    slurm.state["n1"].update(state)
    before = dict(slurm.state["n1"])
    order_of(store, asking("n1"))
    order_of(store, asking("n2"))
    loop_of(store, slurm, plans).round()
    assert slurm.state["n1"] == before
    assert states(store) == {"n1": "held", "n2": "done"}
    assert why in ends(store)[0][2]


@pytest.mark.parametrize("when", [1, 2])
def test_an_admin_who_drains_between_the_reads_keeps_the_word(
    store: Store, plans: NodePlans, when: int
) -> None:
    slurm = Slurm("n1", "n2", "n3")
    reads = 0

    def admin(what: str) -> None:
        nonlocal reads
        reads += what == "read"
        if what == "read" and reads == when:
            slurm.drain_as("n2", "mine", "ines")

    slurm.before = admin
    for name in ("n1", "n2"):
        order_of(store, asking(name))
    loop = loop_of(store, slurm, plans)
    loop.round()
    loop.round()
    assert slurm.state["n2"]["reason"] == "mine"
    assert states(store) == {"n1": "done", "n2": "held"}


def test_a_resume_right_after_our_drain_is_the_last_word(store: Store, plans: NodePlans) -> None:
    slurm = Slurm("n1", "n2", "n3")
    slurm.after = lambda what: slurm.resume_by_hand("n1") if what == "drain" else None
    for name in ("n1", "n2"):
        order_of(store, asking(name))
    loop = loop_of(store, slurm, plans)
    loop.round()
    assert slurm.drained() == ["n2"]
    assert states(store) == {"n1": "done", "n2": "done"}
    assert "put it back in service at once" in ends(store)[0][2]
    order_of(store, asking("n1"))
    loop.round()
    assert slurm.drained() == ["n2"]


AFTER: list[tuple[str, list[dict[str, Any]], dict[str, Any], str]] = [
    ("the same fault goes on", [], {}, "held"),
    ("an old event is still open", [], {"seen": False}, "held"),
    ("the event happened anew", [], {"event": True}, "done"),
    ("it was gone in between", [healthy("n1")], {}, "done"),
    ("another check was good in between", [healthy("n1", "ib_link")], {}, "held"),
    ("another boot", [], {"boot": "boot-two"}, "done"),
    ("another device", [], {"device": "gpu4"}, "done"),
]


@pytest.mark.parametrize(("case", "between", "again", "state"), AFTER, ids=[one[0] for one in AFTER])
def test_after_an_admin_s_resume_the_same_cause_drains_no_second_time(
    store: Store,
    plans: NodePlans,
    case: str,
    between: list[dict[str, Any]],
    again: dict[str, Any],
    state: str,
) -> None:
    slurm, loop = Slurm("n1", "n2", "n3"), None
    order_of(store, asking("n1"))
    loop = loop_of(store, slurm, plans)
    loop.round()
    slurm.resume_by_hand("n1")
    slurm.state["n1"]["comment"] = ""
    for one in between:
        moment = time.time()
        while time.time() <= moment + 0.005:  # the drain is on record with milliseconds
            pass
        keep(store, {**one, "started": asking("n1")["started"]})
        while time.time() <= moment + 0.02:
            pass
    order_of(store, asking("n1", **again))
    loop.round()
    assert states(store) == {"n1": state}
    assert bool(slurm.drained()) == (state == "done")


def test_after_the_guard_s_own_return_a_relapse_drains(store: Store, plans: NodePlans) -> None:
    slurm = Slurm("n1", "n2", "n3")
    order_of(store, asking("n1"))
    loop = loop_of(store, slurm, plans)
    loop.round()
    slurm.resume_by_hand("n1")
    slurm.state["n1"]["comment"] = ""
    returned = healthy("n1")
    resume = {"action": "resume", "fault": "gpu_count.lost", "device": "gpu3", "outcome": "done"}
    keep(store, {**returned, "kind": "action", "by": "healthcheck", "actions": [resume]})
    order_of(store, asking("n1"))
    loop.round()
    assert slurm.drained(REASON) == ["n1"]


#: minutes since the order was made, a healthcheck a minute after it, why the order is over
OVER: list[tuple[str, int, dict[str, str] | None, str]] = [
    ("too old", 31, None, "older than 30 minutes"),
    ("booted since", 0, {"check": "ib_link", "boot": "boot-two"}, "booted since"),
    ("no longer seen", 0, {}, "found it good"),
]


@pytest.mark.parametrize(("case", "age_min", "later", "why"), OVER, ids=[one[0] for one in OVER])
def test_what_is_no_longer_true_is_withdrawn(
    store: Store, plans: NodePlans, case: str, age_min: int, later: dict[str, Any] | None, why: str
) -> None:
    slurm, now = Slurm("n1", "n2", "n3"), time.time()  # not the time at which the tests were collected
    order_of(store, asking("n1", at=now), made_at=round((now - 60 * age_min) * 1000))
    keep(store, *([] if later is None else [healthy("n1", at=now + 60, **later)]))
    loop_of(store, slurm, plans).round()
    assert slurm.log == []
    assert states(store) == {"n1": "withdrawn"}
    assert why in ends(store)[0][2]
    assert [one[:3] for one in actions(store)] == [("n1", "drain", "withdrawn")]


def test_a_site_that_observes_again_is_obeyed(store: Store, tmp_path: Path) -> None:
    slurm, plans = Slurm("n1", "n2", "n3"), plan_in(tmp_path)
    order_of(store, asking("n1"))
    from tests.unit.collector.kit import write_plan

    write_plan(tmp_path / "plan.json", default_profile={"modes": [["*", "*", "observe"]]}, cluster="lab")
    loop_of(store, slurm, plans).round()
    assert (slurm.drained(), states(store)) == ([], {"n1": "withdrawn"})
