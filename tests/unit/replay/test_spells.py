"""Which drains of the replay and of the past are the same."""

from __future__ import annotations

import pytest

from slurm_guard.replay.spells import Ledger, Spell, differences

#: (from, to or None) of one node in the replay and in fact → how many differ on each side, and pairs
CASES = [
    ([], [], (0, 0, 0)),
    ([(5, 9)], [], (1, 0, 0)),
    ([], [(5, 9)], (0, 1, 0)),
    ([(5, 9)], [(6, 8)], (0, 0, 1)),
    ([(5, None)], [(2, 5)], (0, 0, 1)),
    ([(5, None)], [(2, 4)], (1, 1, 0)),
    ([(1, None)], [(2, 4), (6, 8)], (0, 0, 1)),
    ([(1, 2), (7, 8)], [(0, None)], (0, 0, 2)),
    ([(1, 3), (5, 6)], [(2, 3)], (1, 0, 1)),
]


def ledger(spells: list[tuple[int, int | None]], *, early: bool = False) -> Ledger:
    found = Ledger()
    for start, end in spells:
        found.begin(Spell("k1", start, "ib_link.down", "mlx5_0/1", early=early))
        if end is not None:
            assert found.end("k1", end)
    return found


@pytest.mark.parametrize(("would", "did", "counts"), CASES)
def test_two_are_the_same_if_the_node_was_out_at_some_same_time(
    would: list[tuple[int, int | None]], did: list[tuple[int, int | None]], counts: tuple[int, int, int]
) -> None:
    only_would, only_did, both = differences(ledger(would), ledger(did))
    assert (len(only_would), len(only_did), len(both)) == counts


def test_what_began_before_is_neither_told_nor_counted() -> None:
    assert differences(ledger([(1, 3)], early=True), ledger([])) == ([], [], [])
    assert differences(ledger([]), ledger([(1, 3)], early=True)) == ([], [], [])
    assert differences(ledger([(1, 3)], early=True), ledger([(2, 3)], early=True)) == ([], [], [])


def test_another_node_is_another_drain() -> None:
    there = Ledger()
    there.begin(Spell("k2", 1, "ib_link.down", "mlx5_0/1"))
    only_would, only_did, both = differences(ledger([(1, 3)]), there)
    assert ([one.node for one in only_would], [one.node for one in only_did], both) == (["k1"], ["k2"], [])


def test_most_is_when_it_was_first_so() -> None:
    found = ledger([(1, None)])
    found.measure(1)
    found.begin(Spell("k2", 4, "ib_link.down", ""))
    found.measure(4)
    found.end("k2", 5)
    found.measure(5)
    found.begin(Spell("k2", 6, "ib_link.down", ""))
    found.measure(6)
    assert (found.most, found.most_at) == (2, 4)
    assert not found.end("k9", 7)
