"""Look at the runs that are new in the store, and bring incidents up to date. Floor 6's entry point.

The result is the same in whatever order records came: a node's members are made from its marks in order of
time, and where a record comes late, the node is followed anew from what it touches. Each slice of runs is one
transaction with the cursor in it, so that a run counts once, whoever else looks at the same time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_guard.correlate import causes, watch
from slurm_guard.correlate.changes import Changes
from slurm_guard.correlate.regroup import hand_on, regroup
from slurm_guard.correlate.tracker import Tracker
from slurm_guard.store import incidents, marks, members, queries, schema

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from slurm_guard.correlate.causes import Key
    from slurm_guard.correlate.watch import Watched
    from slurm_guard.store import Store
    from slurm_guard.store.incident_model import Member
    from slurm_guard.store.marks import Mark

#: Rows of `runs` in one transaction: another writer never waits long.
_SLICE = 5000


def run(store: Store, now: int, watched: Watched | None = None) -> Changes:
    """Bring incidents up to date with the store; `now` is in milliseconds.

    `watched` is what a collector knows besides the records: which nodes are up in Slurm. Several programs may
    call it at once, as often as they like: without anything new it is a short read. Raises StoreError.
    """
    changes = Changes()
    while _is_behind(store):
        with store.write() as connection:
            _slice(connection, changes)
    watch.look(store, now, watched or watch.Watched.beside(store), changes)
    return changes


def _is_behind(store: Store) -> bool:
    with store.read() as connection:
        seen, last = incidents.cursor(connection)
        return seen < last


class _Dirty:
    """What has to be written: members, and from when on the incidents of a cause are to be grouped anew.

    `again` is when incidents were seen last; `lost` are incidents that lost a member, and the member that has
    its time now.
    """

    def __init__(self) -> None:
        self.since: dict[Key, int] = {}
        self.again: dict[int, int] = {}
        self.lost: list[tuple[int, Member | None]] = []
        self.saved: list[Member] = []
        self.removed: list[Member] = []

    def take(self, tracker: Tracker) -> None:
        """What a node's new marks changed."""
        self.saved += tracker.touched.values()
        for one in tracker.touched.values():
            if one.incident is not None:
                self.again[one.incident] = max(one.last_seen, self.again.get(one.incident, 0))
        for one in tracker.turned.values():
            self.turned(one)

    def turned(self, one: Member) -> None:
        """The incidents of this member's cause are to be grouped anew."""
        key = causes.key(one)
        self.since[key] = min(one.first_seen, self.since.get(key, one.first_seen))


def _slice(connection: Connection, changes: Changes) -> None:
    """Look at the next runs. The cursor is read in the transaction: another program may have been faster."""
    after, last = incidents.cursor(connection)
    upto = min(last, after + _SLICE)
    if upto <= after:
        return
    concerned = marks.nodes_concerned(connection, after, upto)
    if concerned:
        dirty = _Dirty()
        _follow(connection, marks.of_new_runs(connection, after, upto, concerned), after, upto, dirty)
        incidents.seen_again(connection, dirty.again)
        for key, since in dirty.since.items():
            regroup(connection, key, since, changes)
        for number, heir in dirty.lost:
            hand_on(connection, number, heir.incident if heir is not None else None, changes)
    incidents.move_cursor(connection, upto)
    changes.runs += upto - after


def _follow(connection: Connection, new: dict[int, list[Mark]], after: int, upto: int, dirty: _Dirty) -> None:
    """Take in the new marks of each node."""
    if not new:
        return
    names = _names(connection, new)
    known = members.lasting(connection, new, min(some[0].at for some in new.values()))
    for node, some in new.items():
        first = some[0].at
        lasting = [one for one in known.get(node, ()) if one.ended is None or one.ended >= first]
        is_late = any(one.ended is not None for one in lasting)
        if is_late or marks.newest(connection, node, after) >= first:
            _follow_anew(connection, node, names[node], first, upto, dirty)
            continue
        tracker = Tracker(*names[node], lasting)
        for mark in some:
            tracker.feed(mark)
        dirty.take(tracker)
    members.remove(connection, dirty.removed)
    members.save(connection, dirty.saved)


def _names(connection: Connection, nodes: dict[int, list[Mark]]) -> dict[int, tuple[str, str]]:
    """Name and cluster of nodes by number."""
    table, found = schema.nodes, {}
    for some in queries.chunks(list(nodes)):
        for row in connection.execute(table.select().where(table.c.id.in_(some))):
            found[row.id] = (row.name, row.cluster)
    return found


def _follow_anew(
    connection: Connection, node: int, name: tuple[str, str], first: int, upto: int, dirty: _Dirty
) -> None:
    """Follow a node again from before everything that a late mark touches."""
    since, old = first, members.lasting(connection, [node], first).get(node, [])
    while old and min(one.first_seen for one in old) < since:
        since = min(one.first_seen for one in old)
        old = members.lasting(connection, [node], since).get(node, [])
    tracker = Tracker(*name)
    for mark in marks.of_node(connection, node, since, upto):
        tracker.feed(mark)
    gone = _keep_numbers(old, tracker.made)
    dirty.saved += tracker.made
    dirty.removed += gone
    for one in gone:
        if one.incident is not None:
            heir = next((each for each in tracker.made if _same(one, each) and _overlap(one, each)), None)
            dirty.lost.append((one.incident, heir))
    for one in (*tracker.made, *old):
        dirty.turned(one)


def _keep_numbers(old: list[Member], new: list[Member]) -> list[Member]:
    """Let members that were followed anew keep their number and incident; those that are no more."""
    left = list(old)
    for one in new:
        same = [each for each in left if _same(each, one)]
        match = next((each for each in same if each.first_seen == one.first_seen), None)
        match = match or next((each for each in same if _overlap(each, one)), None)
        if match is not None:
            one.id, one.incident = match.id, match.incident
            left.remove(match)
    return left


def _same(one: Member, other: Member) -> bool:
    return (one.fault, one.device) == (other.fault, other.device)


def _overlap(one: Member, other: Member) -> bool:
    first, second = sorted((one, other), key=lambda each: each.first_seen)
    return first.ended is None or second.first_seen <= first.ended
