"""Carry a decision out through Slurm: read, judge, write, in this node's turn, and say how it ended.

Nothing here raises for what Slurm does; every outcome becomes an action on record.
"""

from __future__ import annotations

import time

from slurm_guard.core.errors import SlurmError, SlurmUnreachableError
from slurm_guard.engine import record, turn
from slurm_guard.slurm import budget, ownership, states
from slurm_guard.slurm.command_gateway import CommandGateway

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.plan import Plan
    from slurm_guard.slurm.gateway import Gateway, NodeState

#: A refusing prolog may spend 3 s on Slurm in all, an epilog 5 s (law 5); a detached child has time.
WINDOW_S = {"prolog": 3.0, "epilog": 5.0, "healthcheck": 30.0}
_CALL_S = {"prolog": 1.5, "epilog": 2.5, "healthcheck": 10.0}


class Outcome:
    """How an attempt ended: `done`, `held` (the rules said no) or `failed` (Slurm did not answer or refused)."""

    __slots__ = ("answer", "calls", "unreachable", "what", "why")

    def __init__(self, what: str, why: str, calls: int, answer: str = "", unreachable: bool = False) -> None:
        self.what = what
        self.why = why
        self.calls = calls
        self.answer = answer
        self.unreachable = unreachable

    def as_action(self, kind: str, request: dict[str, Any]) -> dict[str, Any]:
        """The outcome as an action in a record."""
        return record.action(kind, request, self.what, self.why, answer=self.answer, calls=self.calls)


def gateway(plan: Plan, slurm_conf: str) -> Gateway:
    """The door to Slurm that hooks use."""
    return CommandGateway(plan.programs, slurm_conf or plan.slurm_conf)


def drain(door: Gateway, plan: Plan, request: dict[str, Any], hook: str) -> Outcome:
    """Drain this node for a request, if the node is ours to touch and the budget has room."""
    before, end = door.calls, time.monotonic() + WINDOW_S[hook]
    try:
        what, why = _drain(door, plan, request, end, _CALL_S[hook])
        return Outcome(what, why, door.calls - before)
    except SlurmUnreachableError as error:
        return Outcome("failed", "Slurm's controller did not answer", door.calls - before, str(error), True)
    except SlurmError as error:
        return Outcome("failed", "Slurm refused", door.calls - before, str(error))


def _drain(door: Gateway, plan: Plan, request: dict[str, Any], end: float, call_s: float) -> tuple[str, str]:
    while turn.wait(plan.node, plan.all_nodes, end - 0.2):
        nodes = door.nodes(deadline_s=min(call_s, max(0.1, end - time.monotonic())))
        own = next((one for one in nodes if one.name == plan.node), None)
        if own is None:
            return "failed", f"Slurm knows no node {plan.node!r}"
        if states.is_drained_by_us(own, plan.owners):
            return "done", f"already drained by us: {own.reason}"
        allowed, why = states.may_drain(own, plan.owners)
        if not allowed:
            return "held", why
        room, why = budget.room(nodes, own, plan.budget, request)
        if not room:
            return "held", why
        if turn.remains(*turn.slot_of(plan.node, plan.all_nodes), time.time()):
            door.drain(plan.node, request["reason"], deadline_s=min(call_s, max(0.3, end - time.monotonic())))
            return "done", "drained"
    return "held", "no turn to change Slurm's state came in time"


def withdraw_excess(door: Gateway, plan: Plan, request: dict[str, Any]) -> Outcome | None:
    """After a drain: take it back if, all told, the budget was passed and this node is among the last.

    Only needed where several nodes share a turn; None if all is well.
    """
    before = door.calls
    try:
        nodes = door.nodes(deadline_s=_CALL_S["healthcheck"])
        own = next((one for one in nodes if one.name == plan.node), None)
        if own is None or own.reason != request["reason"]:
            return None
        if not budget.is_excess(nodes, own, plan.budget, request):
            return None
        done = ownership.safe_resume(door, plan.node, plan.owners, written=request["reason"], deadline_s=10.0)
        return Outcome("withdrawn", f"past the budget: {done.why}", door.calls - before)
    except SlurmError as error:
        return Outcome("failed", "the look after the drain failed", door.calls - before, str(error))


def resume(door: Gateway, plan: Plan, request: dict[str, Any], refusals: list[float]) -> Outcome:
    """Return this node to service if it is drained with our own reason, unchanged."""
    before = door.calls
    try:
        done = ownership.safe_resume(
            door, plan.node, plan.owners, written=request["reason"], refused_at=refusals, deadline_s=10.0
        )
        return Outcome(done.what, done.why, door.calls - before)
    except SlurmUnreachableError as error:
        return Outcome("failed", "Slurm's controller did not answer", door.calls - before, str(error), True)
    except SlurmError as error:
        return Outcome("failed", "Slurm refused", door.calls - before, str(error))


def tell(door: Gateway, request: dict[str, Any]) -> Outcome:
    """Leave a line for the job's owner in the admin comment, if nobody else has written one."""
    before = door.calls
    try:
        written = door.set_admin_comment(request["job_id"], request["text"], deadline_s=5.0)
        return Outcome("done" if written else "held", "" if written else "the job has an admin comment", door.calls - before)
    except SlurmError as error:
        return Outcome("failed", "the job's comment could not be set", door.calls - before, str(error))


def find_node(nodes: list[NodeState], name: str) -> NodeState | None:
    """The state of one node among all."""
    return next((one for one in nodes if one.name == name), None)
