"""Look at the runs that are new in the store, and bring incidents up to date. Floor 6's entry point.

The result is the same in whatever order records came: a node's members are made from its marks in order of
time, and where a record comes late, the node is followed anew from what it touches. Each slice of runs is one
transaction with the cursor in it, so that a run counts once, whoever else looks at the same time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_guard.correlate import causes, late, watch
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
            self.seen(one)
        for one in tracker.turned.values():
            self.turned(one)

    def take_anew(self, anew: late.Anew) -> None:
        """What following a node anew changed."""
        self.saved += anew.made
        self.removed += anew.gone
        was = {one.id: one for one in anew.old}
        for one in anew.made:
            before = was.get(one.id)
            self.seen(one)
            if before is None or _extent(before) != _extent(one):
                self.turned(one)
                self.turned(before or one)
        for one in anew.gone:
            self.turned(one)
            if one.incident is not None:
                heir = next(
                    (each for each in anew.made if late.is_same(one, each) and late.overlap(one, each)), None
                )
                self.lost.append((one.incident, heir))

    def seen(self, one: Member) -> None:
        """A member was seen last at that time, and so was its incident."""
        if one.incident is not None:
            self.again[one.incident] = max(one.last_seen, self.again.get(one.incident, 0))

    def turned(self, one: Member) -> None:
        """The incidents of this member's cause are to be grouped anew."""
        key = causes.key(one)
        self.since[key] = min(one.first_seen, self.since.get(key, one.first_seen))


def _extent(one: Member) -> tuple[object, ...]:
    """What decides to which incident a member belongs, and what that is."""
    return one.first_seen, one.ended, one.tier, one.scope, one.why


def _slice(connection: Connection, changes: Changes) -> None:
    """Look at the next runs. The cursor is read in the transaction: another program may have been faster."""
    after, last = incidents.cursor(connection)
    upto = min(last, after + _SLICE)
    if upto <= after:
        return
    concerned = marks.nodes_concerned(connection, after, upto)
    nameless = members.of_no_cluster(connection, marks.first_of(connection, after, upto))
    if concerned or nameless:
        dirty = _Dirty()
        new = marks.of_new_runs(connection, after, upto, concerned)
        for node, some in marks.moves(connection, after, upto, nameless).items():
            new[node] = marks.in_order([*new.get(node, ()), *some])
        _follow(connection, new, after, upto, dirty)
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
    moved = marks.nameless(connection) if any(not cluster for _, cluster in names.values()) else ()
    known = members.lasting(connection, new, min(some[0].at for some in new.values()))
    for node, some in new.items():
        first = some[0].at
        lasting = [one for one in known.get(node, ()) if one.ended is None or one.ended >= first]
        is_late = node in moved or any(one.ended is not None for one in lasting)
        if is_late or marks.newest(connection, node, after) >= first:
            dirty.take_anew(late.follow(connection, node, names[node], first, after, upto))
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
