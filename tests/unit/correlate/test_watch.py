"""Silence: of nodes that are up in Slurm, and of the collector."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from slurm_guard import correlate
from slurm_guard.correlate.watch import ALIVE_FILE
from slurm_guard.store import Store, incidents, senders
from slurm_guard.store.senders import Heard
from tests.unit.correlate.incidents_of import lines, new_store, put
from tests.unit.store.factory import ms, run

NODES = ("n1", "n2", "n3", "n4")


@pytest.fixture
def store() -> Iterator[Store]:
    with new_store() as opened:
        put(opened, *(run("healthcheck", node, 0) for node in NODES))
        hear(opened, 0, *NODES)
        yield opened


def hear(store: Store, minute: float, *nodes: str) -> None:
    with store.write() as connection:
        senders.note(connection, [Heard("aurora", node, "10.0.0.1", ms(minute)) for node in nodes])


def look(store: Store, minute: float, *up: str, alive: float | None = None) -> correlate.Changes:
    at = None if alive is None else ms(alive)
    return correlate.run(store, ms(minute), correlate.Watched("aurora", up, alive_at=at))


def test_a_node_is_silent_after_three_intervals_until_it_is_heard(store: Store) -> None:
    assert not look(store, 15, *NODES).any
    hear(store, 15, "n2", "n3", "n4")
    (number,) = look(store, 16, *NODES).opened
    assert lines(store) == ["[n1 guard.silent] 16-16 open n1"]
    assert not look(store, 20, *NODES).any
    hear(store, 21, *NODES)
    assert look(store, 22, *NODES).resolved == {number}
    assert lines(store) == ["[n1 guard.silent] 16-16 resolved@21 n1 (heard again)"]


def test_a_node_that_is_not_up_need_not_send(store: Store) -> None:
    assert not look(store, 60).any
    look(store, 61, "n1")
    assert lines(store) == ["[n1 guard.silent] 61-61 open n1"]
    look(store, 70)
    assert lines(store) == ["[n1 guard.silent] 61-61 resolved@70 n1 (not up in Slurm any more)"]


def test_many_silent_nodes_are_one_incident(store: Store) -> None:
    look(store, 30, "n1", "n2", "n3")
    assert lines(store) == ["[many nodes guard.silent] 30-30 open n1,n2,n3"]


def test_without_slurms_word_nobody_is_found_silent_anew(store: Store) -> None:
    assert not correlate.run(store, ms(90), correlate.Watched("aurora")).any
    look(store, 91, "n1")
    hear(store, 95, "n1")
    assert correlate.run(store, ms(96), correlate.Watched("aurora")).resolved


def test_a_node_of_another_cluster_is_left_alone(store: Store) -> None:
    assert not correlate.run(store, ms(90), correlate.Watched("borealis", NODES)).any


def test_late_records_do_not_touch_a_silence(store: Store) -> None:
    look(store, 30, "n1")
    put(store, run("healthcheck", "n1", 29), run("healthcheck", "n1", 28))
    assert lines(store) == ["[n1 guard.silent] 30-30 open n1"]


def test_a_silence_can_be_closed_and_comes_back_only_after_a_sign_of_life(store: Store) -> None:
    (number,) = look(store, 30, "n1").opened
    incidents.close(store, number, "lena", "known", ms(31))
    assert not look(store, 40, "n1").any
    hear(store, 41, "n1")
    assert not look(store, 42, "n1").any
    assert look(store, 60, "n1").opened
    assert lines(store) == [
        "[n1 guard.silent] 30-30 resolved@31 n1 (closed by lena: known)",
        "[n1 guard.silent] 60-60 open n1",
    ]


def test_a_collector_s_silence_that_was_closed_comes_back_only_after_it_was_alive(store: Store) -> None:
    (number,) = look(store, 13, alive=9.9).opened
    incidents.close(store, number, "lena", "we have none any more", ms(14))
    assert not look(store, 20, alive=9.9).any
    assert look(store, 40, alive=30).opened


def test_the_collector_s_silence_begins_where_its_file_ends(store: Store) -> None:
    look(store, 10, alive=9.9)
    assert lines(store) == []
    look(store, 13, alive=9.9)
    look(store, 14, alive=9.9)
    assert lines(store) == ["[guard] 9.9-9.9 open"]
    look(store, 20, alive=19.9)
    assert lines(store) == ["[guard] 9.9-9.9 resolved@19.9 (the collector is alive again)"]


def test_the_file_beside_the_store_is_looked_at(store: Store) -> None:
    alive = store.path.parent / ALIVE_FILE
    alive.touch()
    os.utime(alive, (ms(0) / 1000, ms(0) / 1000))
    correlate.run(store, ms(1))
    assert lines(store) == []
    correlate.run(store, ms(3))
    assert lines(store) == ["[guard] 0-0 open"]
    alive.unlink()
    correlate.run(store, ms(4))
    assert lines(store) == ["[guard] 0-0 open"]
