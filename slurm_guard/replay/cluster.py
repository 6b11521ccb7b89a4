"""The nodes as Slurm would have shown them, and the budget asked over all of them."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from slurm_guard.core import reason as reasons
from slurm_guard.core import tag
from slurm_guard.slurm import budget
from slurm_guard.slurm.gateway import NodeState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from slurm_guard.core.policy import Decision

#: A note of a drain counts for an hour (rate) and for a day (jobs, users); see slurm/budget.py.
_COUNTS_S = (budget.HOUR_S, budget.DAY_S)


class Cluster:
    """All nodes, `idle` unless drained. Times are seconds since 1970.

    The budget's answer is kept until a node's state or a limit in time changes: nodes that are held ask at
    every run.
    """

    def __init__(
        self, names: Iterable[str], partitions: Mapping[str, list[str]], limits: Mapping[str, float]
    ) -> None:
        of_node: dict[str, list[str]] = {}
        for partition, members in partitions.items():
            for name in members:
                of_node.setdefault(name, []).append(partition)
        self._nodes = {name: NodeState(name, "idle", partitions=of_node.get(name, ())) for name in names}
        self._all = list(self._nodes.values())
        self._limits = limits
        self._answers: dict[Any, budget.Room] = {}
        self._changes: list[float] = []
        self._noted: set[int] = set()

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def reason(self, name: str) -> str:
        """With which reason a node is out of service; empty if it is not."""
        node = self._nodes[name]
        return node.reason if node.drained else ""

    def room(
        self, name: str, wanted: Decision, now: float, jobs: Iterable[int], users: Iterable[int]
    ) -> budget.Room:
        """May this node be drained now? As slurm/budget.py says."""
        while self._changes and self._changes[0] <= now:
            heapq.heappop(self._changes)
            self._answers.clear()
        jobs, users = (
            [one for one in jobs if one in self._noted],
            [one for one in users if one in self._noted],
        )
        node = self._nodes[name]
        key = (
            name if node.comment else node.partitions,
            (wanted.fault, wanted.scope, wanted.device if wanted.scope == "shared" else ""),
            (*jobs, None, *users),
        )
        if key not in self._answers:
            self._answers[key] = budget.room(
                self._all,
                name,
                self._limits,
                wanted.fault,
                wanted.scope,
                wanted.device,
                now,
                jobs=jobs,
                users=users,
            )
        return self._answers[key]

    def drain(
        self, name: str, reason: str, now: float, jobs: Iterable[int] = (), users: Iterable[int] = ()
    ) -> None:
        """A node is drained; with a reason of ours, the note of it goes to its comment."""
        node = self._nodes[name]
        node.flags = frozenset({"DRAIN"})
        node.reason, node.reason_time = reason, int(now)
        if reasons.parse(reason) is not None:
            entry = tag.Entry(int(now), jobs, users)
            node.comment = tag.added(node.comment, entry, now - budget.DAY_S) or ""
            self._noted.update(entry.jobs, entry.users)
            for seconds in _COUNTS_S:
                heapq.heappush(self._changes, int(now) + seconds)
        self._answers.clear()

    def resume(self, name: str) -> None:
        """A node is back in service; the note stays."""
        node = self._nodes[name]
        node.flags, node.reason, node.reason_time = frozenset(), "", None
        self._answers.clear()
