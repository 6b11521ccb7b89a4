"""How many nodes may still be drained, for many at once: `slurm.budget` says yes or no to one node.

The rules are the budget's, and a test holds both against each other; but each node that is taken is counted
here at once, and what was drained in the last day is known from the store, besides the notes in Slurm.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from slurm_guard.core import reason as reasons
from slurm_guard.core import tag
from slurm_guard.slurm import budget
from slurm_guard.slurm.budget import Room

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from slurm_guard.slurm.gateway import NodeState
    from slurm_guard.store.order_history import Loss
    from slurm_guard.store.orders import Order

_NAMED = 5


class Ledger:
    """The nodes of a cluster as Slurm told them, and those that were taken since; times in unix seconds."""

    def __init__(
        self, nodes: Iterable[NodeState], limits: Mapping[str, float], losses: Iterable[Loss], now: float
    ) -> None:
        self._limits, self._now = limits, now
        self._nodes = {node.name: node for node in nodes if node.base != "future"}
        self._sizes = Counter(one for node in self._nodes.values() for one in node.partitions)
        self._out: dict[str, tuple[str, str]] = {}
        self._in_partition: Counter[str] = Counter()
        self._lately: set[str] = set()
        self._lost: dict[tuple[str, int], set[str]] = defaultdict(set)
        for node in self._nodes.values():
            for entry in tag.parse(node.comment) or []:
                self._note(node.name, entry.at, entry.jobs, entry.users)
        for loss in losses:
            self._note(loss.node, loss.at / 1000, loss.jobs, loss.users)
        for node in budget.drained(self._nodes.values()):
            self._take(node.name, _cause_of(node.reason))
            if node.reason_time is not None and now - node.reason_time < budget.HOUR_S:
                self._lately.add(node.name)

    def room(self, order: Order) -> Room:
        """May this order's node be drained, besides all that were taken?"""
        if order.node in self._out:
            return Room(True, f"{order.node} is out of service already: no further room needed")
        for found in (self._poisoned(order), self._shared(order), self._incident(order), self._full(order)):
            if found:
                return _none(*found)
        return Room(True, f"{len(self._out)} of {len(self._nodes)} nodes are out of service by the guard")

    def take(self, order: Order) -> None:
        """Count this order's node as drained from now on."""
        self._take(order.node, _cause_of(order.reason))
        self._note(order.node, self._now, order.job_ids, [int(uid) for uid in order.users if uid.isdigit()])

    def fits(self, orders: Iterable[Order]) -> Room:
        """Is there room for all of these? Takes them if so, and none of them otherwise."""
        some, before = list(orders), self._memory()
        for order in some:
            room = self.room(order)
            if not room.ok:
                self._out, self._in_partition, self._lately, self._lost = before
                return room
            self.take(order)
        return Room(True, f"there is room for {len(some)} nodes")

    def alike(self, order: Order) -> int:
        """How many nodes are out for the same fault on the same device."""
        wanted = _cause_of(order.reason)
        return sum(cause == wanted for cause in self._out.values())

    def _memory(
        self,
    ) -> tuple[dict[str, tuple[str, str]], Counter[str], set[str], dict[tuple[str, int], set[str]]]:
        lost: dict[tuple[str, int], set[str]] = defaultdict(set)
        lost.update({key: set(names) for key, names in self._lost.items()})
        return dict(self._out), Counter(self._in_partition), set(self._lately), lost

    def _take(self, name: str, cause: tuple[str, str]) -> None:
        if name not in self._out:
            node = self._nodes.get(name)
            self._in_partition.update(node.partitions if node is not None else ())
            self._out[name] = cause

    def _note(self, name: str, at: float, jobs: Iterable[int], users: Iterable[int]) -> None:
        age = self._now - at
        if name not in self._nodes or age >= budget.DAY_S:
            return
        if age < budget.HOUR_S:
            self._lately.add(name)
        for kind, ids in (("job", jobs), ("user", users)):
            for one in ids:
                self._lost[kind, one].add(name)

    def _poisoned(self, order: Order) -> tuple[str, str] | None:
        users = [int(uid) for uid in order.users if uid.isdigit()]
        for kind, what, ids in (("job", "job", order.job_ids), ("user", "the jobs of uid", users)):
            most = int(self._limits.get(f"nodes_per_{kind}", 0))
            for one in ids if most else ():
                lost = sorted(self._lost.get((kind, one), set()) - {order.node})
                if len(lost) >= most:
                    names = ", ".join(lost[:_NAMED])
                    said = f"{what} {one} cost {len(lost)} nodes in 24 h ({names}) of at most {most}"
                    return kind, f"{said}: look at the job"
        return None

    def _shared(self, order: Order) -> tuple[str, str] | None:
        most = int(self._limits["shared_nodes"])
        if order.scope != "shared" or self.alike(order) < most:
            return None
        said = f"{cause_text(order)} has a shared cause; {self.alike(order)} of at most {most} are drained"
        return "shared", f"{said}: one incident, not more drains"

    def _incident(self, order: Order) -> tuple[str, str] | None:
        fault = _cause_of(order.reason)[0]
        count = sum(cause[0] == fault for cause in self._out.values())
        if count < budget.FEW or 2 * (count + 1) <= len(self._nodes):
            return None
        return "incident", f"{fault} is on most of {len(self._nodes)} nodes: one incident, not more drains"

    def _full(self, order: Order) -> tuple[str, str] | None:
        node = self._nodes.get(order.node)
        groups = [("nodes", "the cluster", len(self._out), len(self._nodes))]
        groups += [
            ("partition", f"partition {name}", self._in_partition[name], self._sizes[name])
            for name in (node.partitions if node is not None else ())
        ]
        for limit, what, here, size in groups:
            most = budget.limit(self._limits, size)
            if here >= most:
                return limit, f"no room in the budget of {what}: {here} of at most {most} are drained"
        most = int(self._limits["per_hour"])
        if len(self._lately) < most:
            return None
        lately = len(self._lately)
        return "per_hour", f"no room in the budget of an hour: {lately} of at most {most} were drained"


def cause_text(order: Order) -> str:
    """The fault and its device."""
    return f"{order.fault} {order.device}".strip()


def _cause_of(reason: str) -> tuple[str, str]:
    parsed = reasons.parse(reason)
    return (parsed.fault, parsed.device) if parsed is not None else ("", "")


def _none(limit: str, why: str) -> Room:
    found = Room(False, why)
    found.limit = limit
    return found
