"""Grouping by itself: the same partition in any order, and as a plain reading of the rules has it."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_guard.correlate.causes import cause, family
from slurm_guard.correlate.group import MANY, WITHIN_MS, partition
from slurm_guard.store.incident_model import Member

MINUTE = 60_000


def member(node: int, start: int, end: int | None, device: str = "gpu0", scope: str = "device") -> Member:
    ended = None if end is None else end * MINUTE
    first = start * MINUTE
    return Member(node, f"n{node}", "aurora", "gpu_ecc.dbe", device, first, first, scope=scope, ended=ended)


members = st.builds(
    lambda node, start, length, device: member(
        node, start, None if length is None else start + length, device
    ),
    st.integers(1, 6),
    st.integers(0, 60),
    st.none() | st.integers(1, 40),
    st.sampled_from(["gpu0", "gpu1", "/local"]),
)


def near(one: Member, other: Member) -> bool:
    return one.node_id != other.node_id and abs(one.first_seen - other.first_seen) <= WITHIN_MS


def overlap(one: Member, other: Member) -> bool:
    first, second = sorted((one, other), key=lambda each: each.first_seen)
    return first.ended is None or second.first_seen < first.ended


def closure(some: list[Member], related: set[tuple[int, int]]) -> set[frozenset[int]]:
    """The plain way: join what is related until nothing changes."""
    groups = [{number} for number in range(len(some))]
    for one, other in related:
        first = next(group for group in groups if one in group)
        second = next(group for group in groups if other in group)
        if first is not second:
            groups.remove(second)
            first |= second
    return {frozenset(group) for group in groups}


def pairs(some: list[Member], numbers: set[int], related: object) -> set[tuple[int, int]]:
    assert callable(related)
    return {(a, b) for a, b in combinations(sorted(numbers), 2) if related(some[a], some[b])}


def plainly(some: list[Member], *, shared: bool) -> set[frozenset[int]]:
    everything = set(range(len(some)))
    if shared:
        both = pairs(some, everything, near) | pairs(some, everything, overlap)
        return closure(some, both)
    happened = closure(some, pairs(some, everything, near))
    many = {group for group in happened if len({some[n].node_id for n in group}) >= MANY}
    rest = everything - {n for group in many for n in group}

    def alike(one: Member, other: Member) -> bool:
        same = one.node_id == other.node_id and family(one.device) == family(other.device)
        return same and overlap(one, other)

    alone = closure(some, pairs(some, rest, alike))
    return many | {group for group in alone if group <= rest}


@given(some=st.lists(members, max_size=25), shared=st.booleans(), data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_partition_is_what_the_rules_say(some: list[Member], shared: bool, data: st.DataObject) -> None:
    for one in some:
        one.scope = "shared" if shared else "device"
    shuffled = data.draw(st.permutations(some))
    numbers = {id(one): number for number, one in enumerate(some)}
    found = {frozenset(numbers[id(one)] for one in group.members) for group in partition(shuffled)}
    assert found == plainly(some, shared=shared)


def test_two_thousand_nodes_in_one_second_are_one_incident() -> None:
    (group,) = partition([member(node, 0, None) for node in range(1, 2001)])
    assert group.many
    assert len(group.members) == 2000


@pytest.mark.parametrize(
    ("device", "kind"),
    [
        ("gpu3", "gpu"),
        ("mlx5_0/1", "mlx"),
        ("nvme1", "nvme"),
        ("/scratch2", "/scratch2"),
        ("", ""),
        ("psu", "psu"),
    ],
)
def test_kinds_of_devices(device: str, kind: str) -> None:
    assert family(device) == kind


def test_causes_in_words() -> None:
    one = member(1, 0, None)
    assert cause([one], many=False) == "n1 gpu_ecc.dbe gpu"
    assert cause([one], many=True) == "many nodes gpu_ecc.dbe"
    shared = member(1, 0, None, "/scratch", "shared")
    assert cause([shared], many=False) == "gpu_ecc /scratch"
