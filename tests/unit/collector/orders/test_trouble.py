"""Orders in trouble: switches, silence, kills, two collectors, failing stores, budgets that fill."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from slurm_guard.collector import judge, leader
from slurm_guard.collector.node_plans import NodePlans
from slurm_guard.core.errors import StoreError
from slurm_guard.store import Store
from slurm_guard.store.writer import Writer
from tests.unit.collector.fake_slurm import (
    REASON,
    Slurm,
    actions,
    asking,
    ends,
    loop_of,
    order_of,
    plan_in,
    states,
)

NAMES = tuple(f"n{number}" for number in range(1, 81))


def test_a_kill_switch_stops_everything(store: Store, plans: NodePlans, tmp_path: Path) -> None:
    slurm, switch = Slurm("n1", "n2", "n3"), tmp_path / "disabled"
    switch.touch()
    order_of(store, asking("n1"))
    loop = loop_of(store, slurm, plans, switches=(str(switch),))
    loop.round()
    assert (slurm.log, states(store), loop.is_able()) == ([], {"n1": "waiting"}, False)
    switch.unlink()
    loop.round()
    assert slurm.drained() == ["n1"]


def test_while_slurm_is_silent_orders_wait(
    store: Store, plans: NodePlans, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm = Slurm("n1", "n2", "n3")
    slurm.silent = True
    order_of(store, asking("n1"))
    loop = loop_of(store, slurm, plans)
    assert loop.round() == 0
    assert states(store) == {"n1": "waiting"}
    assert "Slurm did not answer" in ends(store)[0][2]
    calls = slurm.calls
    assert loop.round() == 0
    assert slurm.calls == calls, "asked again at once"
    slurm.silent = False
    loop._silent_until = 0.0
    assert loop.round() == 1
    assert slurm.drained(REASON) == ["n1"]
    assert capsys.readouterr().err.count("orders wait") == 1


def test_an_update_without_an_answer_is_not_made_twice(store: Store, plans: NodePlans) -> None:
    """Slurm has drained, and an admin has put the node back before anybody could look."""
    slurm = Slurm("n1", "n2", "n3")
    slurm.drops_answers = True
    order_of(store, asking("n1"))

    def then_silent(what: str) -> None:
        slurm.silent = slurm.silent or what == "drain"

    slurm.after = then_silent
    loop = loop_of(store, slurm, plans)
    loop.round()
    assert states(store) == {"n1": "waiting"}
    slurm.silent = slurm.drops_answers = False
    slurm.after = lambda _what: None
    slurm.resume_by_hand("n1")
    loop._silent_until = 0.0
    loop.round()
    assert slurm.drained() == []
    assert len(slurm.writes()) == 1
    assert "put back in service since" in ends(store)[0][2]


def test_a_bad_name_in_the_list_harms_no_other(store: Store, plans: NodePlans) -> None:
    slurm = Slurm(*NAMES)
    slurm.before = lambda what: slurm.gone.add("n2") if what == "drain" else None
    for name in ("n1", "n2", "n3"):
        order_of(store, asking(name))
    loop = loop_of(store, slurm, plans)
    loop.round()
    assert slurm.drained() == ["n1", "n3"]
    assert states(store) == {"n1": "done", "n2": "waiting", "n3": "done"}
    slurm.before = lambda _what: None
    loop.round()
    assert states(store)["n2"] == "held"
    assert "Slurm told nothing about node n2" in ends(store)[1][2]


def test_an_update_that_slurm_refuses_again_and_again_fails(
    store: Store, plans: NodePlans, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slurm_guard.core.errors import SlurmRefusedError

    slurm = Slurm("n1", "n2", "n3")

    def refuse(*_: Any, **__: Any) -> None:
        raise SlurmRefusedError("scontrol: Invalid user id")

    monkeypatch.setattr(slurm, "drain_many", refuse)
    order_of(store, asking("n1"))
    loop = loop_of(store, slurm, plans)
    for _ in range(3):
        loop.round()
    assert states(store) == {"n1": "failed"}
    assert actions(store)[0][1:3] == ("drain", "failed")


def test_two_collectors_on_one_store_act_one_at_a_time(
    store: Store, plans: NodePlans, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = Slurm(*NAMES)
    one, two = loop_of(store, slurm, plans), loop_of(store, slurm, plans)
    order_of(store, asking("n1"))
    assert one.round() == 1
    order_of(store, asking("n2"))
    assert two.round() == 0
    assert one.round() == 1
    order_of(store, asking("n3"))
    one.leader.give_up()
    assert two.round() == 1
    assert one.round() == 0
    monkeypatch.setattr(leader, "LEASE_S", 0.001)
    two.leader.take()
    end = time.monotonic() + 5
    while not one.leader.take() and time.monotonic() < end:
        time.sleep(0.005)
    assert not two.leader.is_sure()
    assert len(slurm.writes()) == 3


def test_a_leader_that_is_no_longer_sure_writes_nothing(
    store: Store, plans: NodePlans, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = Slurm("n1", "n2", "n3")
    order_of(store, asking("n1"))
    loop = loop_of(store, slurm, plans)
    monkeypatch.setattr(loop.leader, "is_sure", lambda: False)
    loop.round()
    assert (slurm.writes(), states(store)) == ([], {"n1": "waiting"})


def test_killed_between_the_drain_and_its_note_the_next_collector_notes_it(
    store: Store, plans: NodePlans, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = Slurm("n1", "n2", "n3")
    order = order_of(store, asking("n1"))
    loop = loop_of(store, slurm, plans)

    class KilledError(Exception):
        pass

    def killed(what: str) -> None:
        if what == "drain":
            raise KilledError

    slurm.after = killed
    with pytest.raises(KilledError):
        loop.round()
    slurm.after = lambda _what: None
    assert slurm.drained(REASON) == ["n1"]
    loop.leader.give_up()
    other = loop_of(store, slurm, plans)
    with store.write() as connection:  # nobody gave it back: the process is gone
        connection.exec_driver_sql(
            "UPDATE orders SET state='claimed', holder=? WHERE id=?", (loop.leader.holder, order.id)
        )
    other.round()
    assert states(store) == {"n1": "done"}
    assert len(slurm.writes()) == 1
    assert [one[1:3] for one in actions(store)] == [("drain", "done")]
    assert actions(store)[0][3]["written"] is True


def test_a_mistake_hands_over_to_the_other_collector(
    store: Store, plans: NodePlans, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = Slurm("n1", "n2", "n3")
    order_of(store, asking("n1"))
    broken, good = loop_of(store, slurm, plans), loop_of(store, slurm, plans)
    monkeypatch.setattr("slurm_guard.collector.orders_loop.Round.run", _bang)
    broken._quietly(broken.round)
    assert "bang" in broken.problem
    monkeypatch.undo()
    monkeypatch.setattr(judge, "SETTLE_MS", 0)
    assert good.round() == 1
    assert slurm.drained() == ["n1"]


def _bang(_self: Any) -> int:
    raise ValueError("bang")


def test_what_cannot_be_recorded_is_recorded_later(
    store: Store, plans: NodePlans, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = Slurm("n1", "n2", "n3")
    order_of(store, asking("n1"))
    loop = loop_of(store, slurm, plans)
    with monkeypatch.context() as patch:
        patch.setattr(Writer, "write_within", _full)
        with pytest.raises(StoreError):
            loop.round()
    assert slurm.drained() == ["n1"]
    assert actions(store) == []
    loop.round()
    assert [one[1:3] for one in actions(store)] == [("drain", "done")]
    assert states(store) == {"n1": "done"}


def _full(*_: Any) -> Any:
    raise StoreError("the disk is full")


def test_what_a_hook_drained_at_the_same_moment_is_made_up_for(store: Store, tmp_path: Path) -> None:
    slurm = Slurm(*NAMES)
    slurm.before = lambda what: (
        slurm.drain_as("n9", "SG:gpu_xid.79 gpu1", "root") if what == "drain" else None
    )
    order_of(store, asking("n1"))
    loop_of(store, slurm, plan_in(tmp_path, nodes=1)).round()
    assert slurm.drained() == ["n9"]
    assert slurm.state["n1"]["comment"] == ""
    assert states(store) == {"n1": "held"}
    assert [one[1:3] for one in actions(store)] == [("drain", "done"), ("resume", "withdrawn")]
    assert actions(store)[1][3]["limit"] == "nodes"


def test_the_budget_knows_what_was_drained_in_the_last_hour_and_came_back(
    store: Store, tmp_path: Path
) -> None:
    slurm, plans = Slurm(*NAMES), plan_in(tmp_path, per_hour=1)
    order_of(store, asking("n1"))
    loop = loop_of(store, slurm, plans)
    loop.round()
    slurm.resume_by_hand("n1")
    slurm.state["n1"]["comment"] = ""
    order_of(store, asking("n2", "gpu_xid.79"))
    loop.round()
    assert states(store) == {"n1": "done", "n2": "held"}
    assert actions(store)[-1][3]["limit"] == "per_hour"


def test_a_job_costs_two_nodes_in_a_day_whatever_became_of_them(store: Store, tmp_path: Path) -> None:
    slurm, plans = Slurm(*NAMES), plan_in(tmp_path, nodes_per_job=2)
    loop = loop_of(store, slurm, plans)
    for name in ("n1", "n2", "n3"):
        order_of(store, asking(name, jobs={77: 4000}))
        loop.round()
        slurm.resume_by_hand(name)
        slurm.state[name]["comment"] = "an admin's"
    assert states(store) == {"n1": "done", "n2": "done", "n3": "held"}
    assert "job 77 cost 2 nodes in 24 h (n1, n2)" in ends(store)[-1][2]
