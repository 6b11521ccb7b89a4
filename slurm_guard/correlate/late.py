"""Records that come late: their node is followed anew, from a time on that gives the same members."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from slurm_guard.correlate.tracker import Tracker, graver
from slurm_guard.store import marks, members
from slurm_guard.store.incident_model import BUDGET
from slurm_guard.store.marks import ActionMark, RunMark

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from slurm_guard.store.incident_model import Member
    from slurm_guard.store.marks import Mark

#: A record is mostly late by seconds: looking back a little is enough where each run sees the faults.
LOOK_BACK_MS = (2 * 3_600_000, 24 * 3_600_000)


class Anew(NamedTuple):
    """Members as they are by now, what they were, and those that are no more."""

    made: list[Member]
    old: list[Member]
    gone: list[Member]


def follow(
    connection: Connection, node: int, name: tuple[str, str], first: int, after: int, upto: int
) -> Anew:
    """The members of a node that marks of new runs, numbered in (after, upto], touch from `first` on."""
    old = members.lasting(connection, [node], first).get(node, [])
    spanning = {(one.fault, one.device): one for one in old if one.first_seen < first}
    made = _from_near(connection, node, name, first, after, upto, spanning) if spanning else None
    if made is None:
        made, old = _from_the_start(connection, node, name, first, upto, old)
    return Anew(made, old, _keep_numbers(old, made))


def _from_the_start(
    connection: Connection,
    node: int,
    name: tuple[str, str],
    since: int,
    upto: int,
    old: list[Member],
) -> tuple[list[Member], list[Member]]:
    """From before everything that was open at some time from there on."""
    while old and min(one.first_seen for one in old) < since:
        since = min(one.first_seen for one in old)
        old = members.lasting(connection, [node], since).get(node, [])
    tracker = Tracker(*name)
    for mark in marks.of_node(connection, node, since, upto):
        tracker.feed(mark)
    return tracker.made, old


def _from_near(
    connection: Connection,
    node: int,
    name: tuple[str, str],
    first: int,
    after: int,
    upto: int,
    spanning: dict[tuple[str, str], Member],
) -> list[Member] | None:
    """From a little before, where each open fault was seen again: a sighting tells all but its beginning.

    None where that is not so, or where one of them was over, or is by now: then only the whole way tells.
    """
    if any(one.ended is not None for one in spanning.values()):
        return None
    for window in LOOK_BACK_MS:
        known = marks.of_node(connection, node, first - window, after)
        tracker = Tracker(*name)
        for mark in known:
            if mark.at < first:
                tracker.feed(mark)
        if tracker.open.keys() == spanning.keys():
            break
    else:
        return None
    later = [mark for mark in known if mark.at >= first]
    for key, was in spanning.items():
        _go_on(tracker.open[key], was, sum(_sees(mark, key) for mark in later))
    going = list(tracker.open.values())
    tracker.made.clear()
    for mark in marks.of_node(connection, node, first, upto):
        tracker.feed(mark)
    if any(one.ended is not None for one in going):
        return None
    return [*going, *tracker.made]


def _go_on(one: Member, was: Member, later: int) -> None:
    """Let a member that was followed from its middle go on as the one on record, seen so often later."""
    one.id, one.incident, one.first_seen, one.message = was.id, was.incident, was.first_seen, was.message
    one.scope, one.tier, one.count = was.scope, graver([was, one]), was.count - later


def _sees(mark: Mark, key: tuple[str, str]) -> bool:
    if isinstance(mark, RunMark):
        return key in mark.seen
    return isinstance(mark, ActionMark) and bool(mark.limit) and key == (f"{BUDGET}.{mark.limit}", mark.limit)


def _keep_numbers(old: list[Member], new: list[Member]) -> list[Member]:
    """Let members that were followed anew keep their number and incident; those that are no more."""
    left = {one.id: one for one in old}
    for one in new:
        same = [each for each in left.values() if is_same(each, one)]
        match = left.get(one.id) or next((each for each in same if each.first_seen == one.first_seen), None)
        match = match or next((each for each in same if overlap(each, one)), None)
        if match is not None:
            one.id, one.incident = match.id, match.incident
            del left[match.id]
    return list(left.values())


def is_same(one: Member, other: Member) -> bool:
    """True if both are of one fault on one device."""
    return (one.fault, one.device) == (other.fault, other.device)


def overlap(one: Member, other: Member) -> bool:
    """True if both were open at the same time."""
    first, second = sorted((one, other), key=lambda each: each.first_seen)
    return first.ended is None or second.first_seen <= first.ended
