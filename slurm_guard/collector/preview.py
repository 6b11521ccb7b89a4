"""Before anything is judged: which orders are over, already carried out, or about somebody else's node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_guard.collector.deeds import Deed
from slurm_guard.collector.takeover import OLDEST_MS
from slurm_guard.core import reason as reasons
from slurm_guard.core import tag
from slurm_guard.slurm import states
from slurm_guard.slurm.gateway import NodeState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurm_guard.core.plan import Plan
    from slurm_guard.store.order_history import Standing
    from slurm_guard.store.orders import Order


def over(order: Order, standing: Standing, plan: Plan | None, now: int) -> Deed | None:
    """The end of an order whose cause is no longer true; None while it is. `now` in milliseconds."""
    check, why = order.fault.partition(".")[0], ""
    if now - order.made_at >= OLDEST_MS:
        why = "older than 30 minutes: whoever still sees the fault asks anew"
    elif standing.boot != standing.boot_now:
        why = "the node was booted since"
    elif standing.is_gone:
        why = "a later healthcheck found it good"
    elif plan is not None and plan.mode(check, "drain") != "enforce":
        why = "the mode of its drain is no longer enforce"
    return Deed(order, "withdrawn", why) if why else None


def judged(order: Order, node: NodeState | None, standing: Standing, owners: Sequence[str]) -> Deed | None:
    """The end of an order by the state of its node; None if the node may be drained."""
    if node is None:
        return Deed(order, "held", f"Slurm told nothing about node {order.node}: in no partition?")
    if any(entry.at * 1000 + 999 >= order.made_at for entry in tag.parse(node.comment) or []):
        deed = _noted(order, node)
        if deed is not None:
            return deed
    if states.is_drained_by_us(node, owners) and node.reason not in states.REFUSALS:
        why = f"{node.name} is drained with our own reason, unchanged: {node.reason!r}; nothing to write"
        return Deed(order, "done", why, written=False)
    allowed = states.may_drain(node, owners)
    if not allowed:
        return Deed(order, "held", allowed.why)
    if standing.acted_at is not None and not standing.is_anew:
        why = (
            "was drained for this in this boot, and somebody put it back in service: theirs is the last word"
        )
        return Deed(order, "held", f"{order.node} {why}")
    return None


def _noted(order: Order, node: NodeState) -> Deed | None:
    """A drain that was made, as our note on the node tells, and that nobody could put on record."""
    if not node.drained:
        return Deed(order, "done", "drained since it was asked for, and put back in service since")
    if reasons.strip_slurms_additions(node.reason) == order.reason:
        return Deed(order, "done", f"drained: {order.reason}; noted by a later look", written=True)
    if node.reason.startswith(order.reason):
        return Deed(order, "done", f"drained; its reason is {node.reason[:80]!r} now", written=True)
    return None


def undrained(node: NodeState) -> NodeState:
    """A node as it was before our drain and its note."""
    return NodeState(
        node.name,
        node.base,
        node.flags - {"DRAIN"},
        partitions=node.partitions,
        comment=tag.taken_back(node.comment) or "",
        read_at=node.read_at,
    )
