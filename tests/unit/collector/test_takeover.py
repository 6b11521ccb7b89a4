"""Which drains the collector takes over, asked as a node asks: by HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_guard.collector.service import Collector
from slurm_guard.collector.settings import Settings
from slurm_guard.collector.takeover import TakingOver
from slurm_guard.store import orders
from tests.unit.collector.fake_slurm import asking, ends, plan_in
from tests.unit.collector.kit import Ask, body_of, client, settings_in


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    plan_in(tmp_path)
    return settings_in(tmp_path, acting=True, programs={"sinfo": "/nonexistent"})


@pytest.fixture
def collector(settings: Settings) -> Iterator[Collector]:
    """One whose loop does not turn by itself."""
    made = Collector(settings)
    made.plan.look()
    made.intake.start()
    try:
        yield made
    finally:
        made.close()


def told(collector: Collector, *records: dict[str, Any]) -> dict[str, Any]:
    reply = Ask(body=body_of(*records)).send(client(collector))
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    assert found["acknowledged"] == [one["run_id"] for one in records]
    return found


def waiting(collector: Collector) -> list[orders.Order]:
    return orders.waiting(collector.store, round(time.time() * 1000))


def test_a_drain_that_a_healthcheck_asks_for_is_taken_over(collector: Collector) -> None:
    asked = asking("n1", jobs={77: 4000, 78: 0})
    found = told(collector, asked)
    assert found["takes_over"] == [asked["run_id"]]
    (order,) = waiting(collector)
    assert (order.node, order.fault, order.device, order.reason) == (
        "n1",
        "gpu_count.lost",
        "gpu3",
        "SG:gpu_count.lost gpu3",
    )
    assert (order.job_ids, order.users, order.scope) == ([77, 78], ["4000"], "device")
    assert (order.run, order.policy_hash) == (asked["run_id"], found["plan"])


def test_the_same_record_again_gets_the_same_answer(collector: Collector) -> None:
    asked = asking("n1")
    first, second = told(collector, asked), told(collector, asked)
    assert first["takes_over"] == second["takes_over"] == [asked["run_id"]]
    (order,) = waiting(collector)
    orders.claim(collector.store, [order.id], "me", 1)
    with collector.store.write() as connection:
        orders.finish_within(connection, order.id, "me", "held", 2)
    assert told(collector, asked)["takes_over"] == [asked["run_id"]]
    assert waiting(collector) == []


def test_what_is_asked_for_anew_waits_once(collector: Collector) -> None:
    first, second, other = asking("n1"), asking("n1"), asking("n1", device="gpu4")
    assert told(collector, first)["takes_over"] == [first["run_id"]]
    assert told(collector, second, other)["takes_over"] == [second["run_id"], other["run_id"]]
    assert [order.run for order in waiting(collector)] == [second["run_id"], other["run_id"]]
    assert [state for _, state, _ in ends(collector.store)] == ["withdrawn", "waiting", "waiting"]


def changed(**more: Any) -> dict[str, Any]:
    return {**asking("n1"), **more}


def with_action(**more: Any) -> dict[str, Any]:
    asked = asking("n1")
    return {**asked, "actions": [{**asked["actions"][0], **more}]}


#: Made when the test runs, since their age is judged.
NOT_TAKEN: dict[str, Callable[[], dict[str, Any]]] = {
    "of a prolog": lambda: changed(hook="prolog"),
    "only observed": lambda: with_action(outcome="observed"),
    "held by the node": lambda: with_action(outcome="held"),
    "a resume": lambda: with_action(action="resume"),
    "half an hour old": lambda: asking("n1", at=time.time() - 31 * 60),
    "of a clock far ahead": lambda: asking("n1", at=time.time() + 900),
    "without a boot": lambda: changed(machine={}),
    "another reason than ours": lambda: with_action(reason="SG:gpu_count.lost gpu3 please"),
    "no reason": lambda: with_action(reason=None),
    "a fault that is none": lambda: with_action(fault="rm -rf", reason="SG:rm-rf gpu3"),
    "an endless device": lambda: asking("n1", device="g" * 300),
}


@pytest.mark.parametrize("case", sorted(NOT_TAKEN))
def test_what_is_not_taken_over(collector: Collector, case: str) -> None:
    assert told(collector, NOT_TAKEN[case]())["takes_over"] == []
    assert waiting(collector) == []


def test_nothing_is_taken_over_where_the_plan_here_says_observe(collector: Collector, tmp_path: Path) -> None:
    bundle = json.loads((tmp_path / "plan.json").read_text())
    assert bundle["default_profile"]["modes"] == [["*", "*", "enforce"]]
    (tmp_path / "plan.json").unlink()
    from tests.unit.collector.kit import write_plan

    write_plan(tmp_path / "plan.json", default_profile={"modes": [["gpu_*", "drain", "observe"]]})
    assert told(collector, asking("n1"))["takes_over"] == []


def test_nothing_is_taken_over_without_a_plan(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, acting=True)
    made = Collector(settings)
    made.intake.start()
    try:
        assert told(made, asking("n1"))["takes_over"] == []
    finally:
        made.close()


def test_a_collector_that_does_not_act_takes_nothing_over(tmp_path: Path) -> None:
    plan_in(tmp_path)
    made = Collector(settings_in(tmp_path))
    made.intake.start()
    try:
        assert made.orders is None
        assert told(made, asking("n1"))["takes_over"] == []
    finally:
        made.close()


def test_a_loop_that_no_longer_turns_takes_nothing_over(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert collector.orders is not None
    monkeypatch.setattr("slurm_guard.collector.orders_loop.ABLE_S", -1.0)
    asked = asking("n1")
    assert told(collector, asked)["takes_over"] == []
    monkeypatch.undo()
    assert told(collector, asked)["takes_over"] == [asked["run_id"]]


def test_the_loop_is_woken_for_what_is_taken_over(collector: Collector) -> None:
    assert collector.orders is not None
    told(collector, asking("n1", "gpu_xid.79"))
    assert collector.orders._awake.is_set()
    assert isinstance(collector.intake._committer._take_over, TakingOver)
