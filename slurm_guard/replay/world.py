"""What a replay works on: the question, the nodes with their memories, Slurm's side and the two ledgers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from slurm_guard.core.plan import Plan
from slurm_guard.replay.cluster import Cluster
from slurm_guard.replay.held import Holds
from slurm_guard.replay.known import Known
from slurm_guard.replay.memory import Memory
from slurm_guard.replay.spells import Ledger
from slurm_guard.store import history

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

#: How long before the time that is asked about history is taken in, at least.
BEFORE_MS = 86_400_000


@dataclass
class Question:
    """What is replayed: `bundle` over the records of `cluster` (and those that name none) in [since, until).

    `partitions` are Slurm's, by name, with their nodes; `shown` are the nodes that are told of (None: all),
    while the budget is held over all. With `enforce`, what a mode only observes is taken as enforced.
    """

    bundle: dict[str, Any]
    since: int
    until: int
    cluster: str = ""
    partitions: Mapping[str, list[str]] = field(default_factory=dict)
    shown: frozenset[str] | None = None
    enforce: bool = False

    def is_shown(self, node: str) -> bool:
        """True for a node that is to be told of."""
        return self.shown is None or node in self.shown


class World:
    """The state of a replay.

    `names` are the nodes on record by number, `recorded` when the first and the last run of each began;
    `begin` is when history starts to be taken in; `absent_jobs` counts prologs on nodes that would be out.
    """

    def __init__(self, connection: Connection, question: Question) -> None:
        self.connection = connection
        self.question = question
        self.names = _numbered(connection, question.cluster)
        self.numbers: dict[str, list[int]] = {}
        for number, name in self.names.items():
            self.numbers.setdefault(name, []).append(number)
        self.recorded = history.spans(connection, self.names, question.until)
        self.lists = history.CheckLists(connection)
        self.checks_seen: set[str] = set(self.lists.all())
        self.would, self.did, self.holds = Ledger(), Ledger(), Holds()
        self.absent_jobs = 0
        self.plan = self._plan("")
        self.begin = question.since - _before_ms(question.bundle)
        everyone = {*question.bundle.get("nodes", {}), *self.numbers}.union(*question.partitions.values())
        self.cluster = Cluster(sorted(everyone), question.partitions, self.plan.budget)
        self.memories: dict[str, Memory] = {}
        self._known = Known()
        self._plans: dict[Any, Plan] = {}

    def _plan(self, node: str) -> Plan:
        plan = Plan(self.question.bundle, node)
        if self.question.enforce:
            observed = ([*what, "enforce" if mode == "observe" else mode] for *what, mode in plan.modes)
            plan.modes = [["*", "*", "enforce"], *observed]
        return plan

    def memory(self, name: str) -> Memory:
        """What one node remembers; nodes of one profile share their plan."""
        if name not in self.memories:
            profile = self.question.bundle.get("nodes", {}).get(name)
            if profile not in self._plans:
                self._plans[profile] = self._plan(name)
            self.memories[name] = Memory(self._plans[profile], self._known)
        return self.memories[name]

    def measure(self, at: int) -> None:
        """Look how many nodes are out, after something changed."""
        if at >= self.question.since:
            self.would.measure(at)
            self.did.measure(at)


def _numbered(connection: Connection, cluster: str) -> dict[int, str]:
    """The numbers of a cluster's nodes; records from before the first plan name no cluster."""
    found = history.nodes(connection)
    return {number: name for number, of, name in found if of in (cluster, "") or not cluster}


def _before_ms(bundle: dict[str, Any]) -> int:
    """A day, or as far back as a rule looks for repeats."""
    profiles = [*bundle.get("profiles", []), bundle.get("default_profile") or {}]
    rules = [rule for profile in profiles for rule in profile.get("rules", [])]
    within: list[int] = [round(rule["escalate"]["within_s"] * 1000) for rule in rules if "escalate" in rule]
    return max([BEFORE_MS, *within])
