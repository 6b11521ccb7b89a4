"""Nodes that are up in Slurm and send nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_guard.collector import watching
from slurm_guard.collector.journal import Journal
from slurm_guard.collector.pace import Pace
from slurm_guard.collector.watching import Watching
from slurm_guard.store import Store, open_store, senders
from tests.unit.collector.fake_slurm import Slurm, healthy, keep
from tests.unit.slurm.nodes import node

UP = [
    ("IDLE", True),
    ("MIXED", True),
    ("ALLOCATED", True),
    ("IDLE+DRAIN", True),
    ("IDLE+NOT_RESPONDING", False),
    ("IDLE+POWERED_DOWN", False),
    ("IDLE+POWERING_UP", False),
    ("IDLE+REBOOT_ISSUED", False),
    ("IDLE+SOMETHING_NEW", False),
    ("DOWN", False),
    ("UNKNOWN", False),
    ("FUTURE", False),
]


@pytest.mark.parametrize(("state", "is_up"), UP)
def test_which_nodes_must_be_heard(state: str, is_up: bool) -> None:
    assert watching.up([node("n1", state)]) == ({"n1"} if is_up else set())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def heard(store: Store, name: str, at: int) -> None:
    keep(store, healthy(name))
    with store.write() as connection:
        senders.note(connection, [senders.Heard("lab", name, "10.0.0.1", at)])


def watch(store: Store, slurm: Slurm, seconds: float) -> Watching:
    return Watching(store, lambda: slurm, Pace(1e6), Journal(), lambda: "lab", seconds)


def incidents(store: Store) -> list[tuple[str, str]]:
    with store.read() as connection:
        ask = "SELECT cause, state FROM incidents ORDER BY id"
        return [(row.cause, row.state) for row in connection.exec_driver_sql(ask)]


def test_a_silent_node_is_an_incident_until_it_is_heard_or_down(store: Store) -> None:
    slurm = Slurm("n1", "n2", "n3")
    slurm.state["n2"]["base"] = "down"
    for name in ("n1", "n2"):
        heard(store, name, 1000)
    found = watch(store, slurm, 0.0).look()
    assert len(found.opened) == 1
    assert incidents(store) == [("n1 guard.silent", "open")]
    slurm.state["n1"]["base"] = "down"
    watch(store, slurm, 0.0).look()
    assert incidents(store) == [("n1 guard.silent", "resolved")]


def test_a_silent_slurm_makes_no_node_silent(store: Store) -> None:
    slurm = Slurm("n1")
    slurm.silent = True
    heard(store, "n1", 1000)
    watch(store, slurm, 0.0).look()
    assert incidents(store) == []


def test_a_collector_that_was_just_started_calls_nobody_silent(store: Store) -> None:
    slurm = Slurm("n1")
    heard(store, "n1", 1000)
    watch(store, slurm, 900.0).look()
    assert (incidents(store), slurm.log) == ([], [])
