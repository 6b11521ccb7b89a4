"""Which members are one incident. Pure: a partition of the members of one key, the same in any order.

A shared cause: members that overlap in time, or begin on different nodes within ten minutes of each other.
Any other fault: three nodes or more of which each begins within ten minutes of another are one incident; what
is left is an incident for each node and kind of device, as long as its members overlap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from slurm_guard.correlate.causes import family
from slurm_guard.store.incident_model import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from slurm_guard.store.incident_model import Member

#: Beginnings so near each other are one happening.
WITHIN_MS = 10 * 60_000
#: So many nodes with the same new fault are no coincidence.
MANY = 3
_ENDLESS = 1 << 62


class Group(NamedTuple):
    """The members of one incident, the first to begin first. `many`: it is one of many nodes."""

    members: list[Member]
    many: bool


def partition(members: Iterable[Member]) -> list[Group]:
    """Members of one key as incidents, the first to begin first."""
    ordered = sorted(members, key=_order)
    if not ordered:
        return []
    if ordered[0].scope == SHARED:
        found = [Group(some, many=False) for some in _shared(ordered)]
    else:
        found = _local(ordered)
    return sorted(found, key=lambda group: _order(group.members[0]))


def _order(one: Member) -> tuple[int, int, str, str, str]:
    """By beginning; of what began in one millisecond, what is over was first."""
    return one.first_seen, _end(one), one.node, one.fault, one.device


def _end(one: Member) -> int:
    return _ENDLESS if one.ended is None else one.ended


def _shared(ordered: Sequence[Member]) -> list[list[Member]]:
    joined = _Joined(len(ordered))
    _join_near(ordered, joined)
    _join_overlapping(ordered, range(len(ordered)), joined)
    return joined.groups(ordered)


def _local(ordered: Sequence[Member]) -> list[Group]:
    joined = _Joined(len(ordered))
    _join_near(ordered, joined)
    near = joined.groups(ordered)
    many = [Group(some, many=True) for some in near if len({one.node_id for one in some}) >= MANY]
    rest = [one for some in near if len({one.node_id for one in some}) < MANY for one in some]
    by_node: dict[tuple[int, str], list[Member]] = {}
    for one in sorted(rest, key=_order):
        by_node.setdefault((one.node_id, family(one.device)), []).append(one)
    for some in by_node.values():
        alone = _Joined(len(some))
        _join_overlapping(some, range(len(some)), alone)
        many += [Group(group, many=False) for group in alone.groups(some)]
    return many


def _join_near(ordered: Sequence[Member], joined: _Joined) -> None:
    """Join what begins near each other on different nodes.

    Two earlier nodes are enough to look back to: whatever else is as near has joined one of them.
    """
    for number, one in enumerate(ordered):
        nodes: set[int] = set()
        for earlier in range(number - 1, -1, -1):
            other = ordered[earlier]
            if one.first_seen - other.first_seen > WITHIN_MS or len(nodes) == 2:
                break
            if other.node_id != one.node_id:
                nodes.add(other.node_id)
                joined.join(earlier, number)


def _join_overlapping(ordered: Sequence[Member], numbers: Iterable[int], joined: _Joined) -> None:
    """Join what is open at the same time."""
    last, reach = -1, -1
    for number in numbers:
        one = ordered[number]
        if last >= 0 and one.first_seen < reach:
            joined.join(last, number)
        if _end(one) > reach or last < 0:
            last, reach = number, _end(one)


class _Joined:
    """Numbers that belong together (a disjoint-set forest)."""

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))

    def _root(self, number: int) -> int:
        while self._parent[number] != number:
            self._parent[number] = self._parent[self._parent[number]]
            number = self._parent[number]
        return number

    def join(self, one: int, other: int) -> None:
        first, second = sorted((self._root(one), self._root(other)))
        self._parent[second] = first

    def groups(self, members: Sequence[Member]) -> list[list[Member]]:
        found: dict[int, list[Member]] = {}
        for number, one in enumerate(members):
            found.setdefault(self._root(number), []).append(one)
        return list(found.values())
