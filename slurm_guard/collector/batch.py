"""Drain many nodes with few calls: nodes with the same reason together, each read right before, and after.

Slurm drains the good nodes of a list with a bad name in it and says that it failed: so names come from the
read alone, and what became of each node is what the next read says, not the exit status.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from slurm_guard.core import reason as reasons
from slurm_guard.core import tag
from slurm_guard.core.errors import SlurmError, SlurmUnreachableError
from slurm_guard.slurm import ownership, states

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from slurm_guard.collector.leader import Leader
    from slurm_guard.collector.pace import Pace
    from slurm_guard.slurm.gateway import Gateway, NodeState
    from slurm_guard.store.orders import Order

#: What one call may take.
CALL_S = 10.0
#: Nodes of one call: its list of names must fit into one argument.
MOST_NODES = 500
#: With more different notes than this for one reason, the notes name no jobs, so that calls stay few.
MOST_NOTES = 10
_MOST_READS = 4
_DAY_S = 86400


class Written(NamedTuple):
    """One update of several nodes: their orders, what Slurm said (empty if it granted it), the calls."""

    orders: list[Order]
    error: str
    calls: int


class Group(NamedTuple):
    """Orders with one reason whose nodes get the same comment (None: a person's stands there) by `entry`."""

    reason: str
    entry: tag.Entry
    comment: str | None
    orders: list[Order]


class Batch:
    """One round of drains. `at` is its time in unix seconds, which the notes carry.

    `written` are the updates that were tried; `left` are orders that were not tried, with why.
    """

    def __init__(self, door: Gateway, pace: Pace, leader: Leader, owners: Sequence[str]) -> None:
        self._door, self._pace, self._leader, self._owners = door, pace, leader, list(owners)
        self.at = int(time.time())
        self.written: list[Written] = []
        self.left: dict[int, str] = {}

    def read(self) -> dict[str, NodeState]:
        """All nodes by name, from one call. Raises SlurmError."""
        self._pace.take()
        return {node.name: node for node in self._door.nodes(None, CALL_S)}

    def drain(self, orders: Sequence[Order], nodes: dict[str, NodeState]) -> None:
        """Drain the nodes of orders, one order a node. Raises SlurmUnreachableError if Slurm falls silent."""
        for group in self._groups(orders, nodes):
            self._write(group)

    def _groups(self, orders: Sequence[Order], nodes: dict[str, NodeState]) -> Iterator[Group]:
        by_reason: dict[str, list[Order]] = defaultdict(list)
        for order in orders:
            by_reason[order.reason].append(order)
        for reason, some in by_reason.items():
            found = self._by_note(reason, some, nodes, named=True)
            if len(found) > MOST_NOTES:
                found = self._by_note(reason, some, nodes, named=False)
            for group in found:
                for start in range(0, len(group.orders), MOST_NODES):
                    yield group._replace(orders=group.orders[start : start + MOST_NODES])

    def _by_note(
        self, reason: str, orders: list[Order], nodes: dict[str, NodeState], *, named: bool
    ) -> list[Group]:
        found: dict[str | None, Group] = {}
        for order in orders:
            users = [int(uid) for uid in order.users if uid.isdigit()]
            entry = tag.Entry(self.at, order.job_ids, users) if named else tag.Entry(self.at)
            comment = self._comment(nodes[order.node], entry)
            found.setdefault(comment, Group(reason, entry, comment, [])).orders.append(order)
        return list(found.values())

    def _comment(self, node: NodeState, entry: tag.Entry) -> str | None:
        return tag.added(node.comment, entry, self.at - _DAY_S)

    def _write(self, group: Group) -> None:
        """Read these nodes, and write within 50 ms those that are still as they were."""
        if not (self._leader.is_sure() or self._leader.take()):
            return
        before = self._door.calls
        self._pace.take(2)
        for _ in range(_MOST_READS):
            fresh = {n.name: n for n in self._door.nodes([one.node for one in group.orders], CALL_S)}
            good = [one for one in group.orders if self._is_free(one, fresh.get(one.node), group)]
            read_at = min((node.read_at for node in fresh.values()), default=0.0)
            if not good or not self._leader.is_sure():
                return
            if time.monotonic() - read_at <= ownership.FRESH_S:
                break
            self._pace.take()
        else:
            slow = f"no write within {ownership.FRESH_S * 1000:.0f} ms of a read: this host is too slow now"
            self.left.update({one.id: slow for one in good})
            return
        self.written.append(Written(good, self._update(good, group), self._door.calls - before))

    def _update(self, good: list[Order], group: Group) -> str:
        """What Slurm said against it; silence is told by the read that follows."""
        try:
            self._door.drain_many([one.node for one in good], group.reason, CALL_S, group.comment)
        except SlurmUnreachableError as error:
            return str(error) or "no answer"
        except SlurmError as error:
            return str(error)
        return ""

    def _is_free(self, order: Order, node: NodeState | None, group: Group) -> bool:
        """Still nobody's, with the comment that the note was made for."""
        if node is None or node.drained or not states.may_drain(node, self._owners):
            return False
        return self._comment(node, group.entry) == group.comment

    def became(self, order: Order, node: NodeState | None, error: str) -> bool:
        """After an update, by the next read: was this node drained by it?

        Slurm's word that it did is good; without it, the reason or our note there proves it. A node that is
        in service all the same was put back in between, and is left alone.
        """
        if not error:
            return True
        if node is None:
            return False
        if node.drained and reasons.strip_slurms_additions(node.reason) == order.reason:
            return True
        return any(entry.at == self.at for entry in tag.parse(node.comment) or [])
