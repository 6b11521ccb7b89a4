"""Leases and orders: one holder at a time, whatever dies or comes twice."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_guard.store import Store, leases, open_store, orders
from slurm_guard.store.orders import Order
from slurm_guard.store.record import parse
from slurm_guard.store.writer import ingest
from tests.unit.store.factory import run

NOW = 1_800_000_000_000


def finish(store: Store, number: int, holder: str, state: str, now: int, **said: Any) -> bool:
    with store.write() as connection:
        return orders.finish_within(connection, number, holder, state, now, **said)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def test_a_lease_has_one_holder_until_it_runs_out(store: Store) -> None:
    assert leases.take(store, "leader", "a", 10, NOW)
    assert not leases.take(store, "leader", "b", 10, NOW + 9_000)
    assert leases.take(store, "leader", "a", 10, NOW + 9_000)
    assert not leases.take(store, "leader", "b", 10, NOW + 18_000)
    assert leases.take(store, "other", "b", 10, NOW)
    assert leases.take(store, "leader", "b", 10, NOW + 19_001)


def test_a_lease_given_up_is_free_and_only_ones_own_can_be(store: Store) -> None:
    assert leases.take(store, "leader", "a", 10, NOW)
    leases.give_up(store, "leader", "b")
    assert not leases.take(store, "leader", "b", 10, NOW + 1)
    leases.give_up(store, "leader", "a")
    assert leases.take(store, "leader", "b", 10, NOW + 1)


def test_a_lease_from_a_future_that_was_set_back_holds_nobody_up(store: Store) -> None:
    assert leases.take(store, "leader", "a", 10, NOW + 86_400_000)
    assert leases.take(store, "leader", "b", 10, NOW)


def order(run_id: str = "a" * 32, **more: object) -> Order:
    fields = {"cluster": "aurora", "node": "n1", "kind": "drain", "fault": "gpu_ecc.dbe", "device": "gpu2"}
    return Order(**{**fields, "reason": "SG:gpu_ecc.dbe gpu2", "run": run_id, "made_at": NOW, **more})  # type: ignore[arg-type]


def added(store: Store, *some: Order) -> list[int]:
    ingest(store, [parse(json.dumps(run("healthcheck", node, 0)).encode()) for node in ("n1", "n2")])
    with store.write() as connection:
        return [orders.add(connection, one) for one in some]


def test_an_order_comes_back_as_it_was_given_and_only_once(store: Store) -> None:
    given = order(job_ids=[4, 9], users=["mira"], scope="device", policy_hash="f" * 32)
    first, second, other = added(store, given, given, order("b" * 32, node="n2"))
    assert first == second != other
    found = orders.waiting(store, NOW)
    assert [(one.node, one.run, one.job_ids, one.users) for one in found] == [
        ("n1", "a" * 32, [4, 9], ["mira"]),
        ("n2", "b" * 32, [], []),
    ]
    assert (found[0].reason, found[0].scope, found[0].policy_hash) == (given.reason, "device", "f" * 32)


def test_an_order_for_a_node_without_records_is_refused(store: Store) -> None:
    with pytest.raises(LookupError, match="n9"):
        added(store, order(node="n9"))


def test_a_claim_is_a_swap_and_ends_with_its_holder(store: Store) -> None:
    number, *_ = added(store, order())
    assert orders.claim(store, [number], "a", NOW) == [number]
    assert orders.claim(store, [number], "b", NOW + 1) == []
    assert orders.waiting(store, NOW + orders.CLAIM_MS) == []
    late = NOW + orders.CLAIM_MS + 1
    assert [one.id for one in orders.waiting(store, late)] == [number]
    assert orders.claim(store, [number], "b", late) == [number]
    assert not finish(store, number, "a", "done", late)
    assert finish(store, number, "b", "done", late, why="there is room", answer="", calls=2)
    assert not finish(store, number, "b", "failed", late)
    assert orders.waiting(store, late * 2) == []
    (ended,) = orders.of_nodes(store, [orders_node(store, number)], NOW)
    assert (ended.state, ended.why, ended.calls, ended.holder) == ("done", "there is room", 2, "b")


def orders_node(store: Store, number: int) -> int:
    with store.read() as connection:
        return int(
            connection.exec_driver_sql("SELECT node_id FROM orders WHERE id=?", (number,)).scalar() or 0
        )


def test_an_order_given_back_waits_again_and_may_be_withdrawn(store: Store) -> None:
    number, *_ = added(store, order())
    orders.claim(store, [number], "a", NOW)
    assert orders.give_back(store, [number], "b", NOW) == 0
    with store.write() as connection:
        assert not orders.withdraw(connection, number, NOW, "too late")
    assert orders.give_back(store, [number], "a", NOW, "the controller is silent") == 1
    assert [one.why for one in orders.waiting(store, NOW)] == ["the controller is silent"]
    with store.write() as connection:
        assert orders.withdraw(connection, number, NOW, "the fault is gone")
    assert orders.waiting(store, NOW) == []
    with pytest.raises(ValueError, match="expected one of done"):
        finish(store, number, "a", "waiting", NOW)


def test_of_two_collectors_at_once_each_order_has_one(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with open_store(path) as store:
        numbers = added(store, *(order(f"{n:032x}") for n in range(40)))
    won: dict[str, list[int]] = {}

    def work(holder: str) -> None:
        with open_store(path) as own:
            won[holder] = [one for number in numbers for one in orders.claim(own, [number], holder, NOW)]

    threads = [threading.Thread(target=work, args=(holder,)) for holder in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won["a"] + won["b"]) == numbers
