"""What happens next to a node that slurm_guard drained: a sentence for people, from records and policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurm_guard.core import reason as reasons
from slurm_guard.core.policy import DRAIN_TIERS
from slurm_guard.slurm import states

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slurm_guard.core.plan import Plan
    from slurm_guard.slurm.gateway import NodeState as SlurmNode
    from slurm_guard.store.model import NodeState as KnownNode


class Slurm:
    """What Slurm said of its nodes at one moment: `nodes` by name, or `problem` why there is nothing."""

    def __init__(self, nodes: Iterable[SlurmNode] = (), problem: str = "") -> None:
        self.nodes = {node.name: node for node in nodes}
        self.problem = problem

    @property
    def reachable(self) -> bool:
        """True if Slurm answered."""
        return not self.problem

    def lacks(self, name: str) -> bool:
        """True if Slurm named its nodes and this is none of them."""
        return bool(self.nodes) and name not in self.nodes

    def is_out(self, name: str) -> bool | None:
        """Is a node out of service, whoever did it? None if Slurm did not tell."""
        node = self.nodes.get(name)
        return None if node is None else node.drained or node.base == "down"


@dataclass(frozen=True)
class Drained:
    """One node that is out of service because of the guard, or was meant to be.

    `ours` is True if the drain is ours and unchanged, None if Slurm could not be asked. `since` is in
    milliseconds. `state` is Slurm's, empty if it could not be asked.
    """

    node: str
    reason: str
    since: int | None
    ours: bool | None
    state: str
    next: str


def look(plan: Plan, node: str, slurm: SlurmNode | None, known: KnownNode | None) -> Drained | None:
    """What to say of a node; None if it is in service, or out of it for somebody else's reason.

    `slurm` is None where Slurm could not be asked: then only the record speaks.
    """
    written = known.drained_by if known is not None else None
    if slurm is None:
        if written is None:
            return None
        what = _next(plan, written.reason or "", known)
        return Drained(node, written.reason or "", written.at, None, "", f"if still drained: {what}")
    if not slurm.drained and slurm.base != "down":
        return None
    since = slurm.reason_time * 1000 if slurm.reason_time else None
    mine = states.is_drained_by_us(slurm, plan.owners, written.reason if written else None)
    if mine:
        return Drained(node, slurm.reason, since, True, str(slurm), _next(plan, slurm.reason, known))
    if written is None and not states.counts_against_budget(slurm):
        return None
    return Drained(node, slurm.reason, since, False, str(slurm), _left(node, slurm, mine.why))


def _left(node: str, slurm: SlurmNode, why: str) -> str:
    """What becomes of a drain that is not ours, or no longer."""
    cure = (
        f"; whoever did it ends it: `scontrol update nodename={node} state=resume`" if slurm.drained else ""
    )
    return f"left alone: {why}{cure}"


def _next(plan: Plan, reason: str, known: KnownNode | None) -> str:
    """What becomes of a drain of ours."""
    parsed = reasons.parse(reason)
    check = parsed.fault.partition(".")[0] if parsed else ""
    still = open_faults(known)
    if still:
        return f"stays until repaired; open: {', '.join(still)}"
    if plan.mode(check, "resume") != "enforce":
        return "stays until `sguard resume`: resume is not in enforce"
    return f"returns by itself after {plan.returning['clean_runs']:g} clean healthchecks in a row"


def open_faults(known: KnownNode | None) -> list[str]:
    """The faults on record that keep a node out of service, as `fault device`."""
    found = [one for one in (known.open_faults if known else []) if one.tier in DRAIN_TIERS]
    return list(dict.fromkeys(f"{one.fault} {one.device}".strip() for one in found))
