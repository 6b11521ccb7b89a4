"""Carry a decision out through Slurm: read, judge, write, in this node's turn, and say how it ended.

Nothing here raises for what Slurm does; every outcome becomes an action on record.
"""

from __future__ import annotations

import time

from slurm_guard.core import tag
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
#: What one call of a detached child may take.
_CALL_S = 10.0
_MOST_READS = 2
_WRITE_S = 0.3
NO_TURN = "no turn to change Slurm's state came in time"


class Outcome:
    """How an attempt ended: `done`, `held` (the rules said no) or `failed` (refused, or no answer).

    `written`: this very attempt changed the node. `out`: the node was out of service already. `recalled`: it
    is another run's answer of `age_s` seconds ago, which that run has drawn its conclusions from.
    `reason`: the node's reason as it was read before the write, None if it was not read.
    """

    __slots__ = (
        "age_s",
        "answer",
        "calls",
        "limit",
        "out",
        "reason",
        "recalled",
        "what",
        "why",
        "written",
    )

    def __init__(self, what: str, why: str, calls: int, answer: str = "") -> None:
        self.what = what
        self.why = why
        self.calls = calls
        self.answer = answer
        self.written = False
        self.limit = ""
        self.out = False
        self.recalled = False
        self.age_s = 0.0
        self.reason: str | None = None

    def __str__(self) -> str:
        """How it ended, as a line for the system log."""
        asked = f" (asked {self.age_s:.0f} s ago)" if self.recalled else ""
        return f"{self.what}: {self.why}{asked} {self.answer}".strip()

    def as_action(self, kind: str, request: dict[str, Any]) -> dict[str, Any]:
        """The outcome as an action in a record."""
        written = self.written if kind != "tell" else None
        found = record.action(
            kind, request, self.what, self.why, answer=self.answer, calls=self.calls, written=written
        )
        return {**found, "limit": self.limit} if self.limit else found


def gateway(plan: Plan, slurm_conf: str) -> Gateway:
    """The door to Slurm that hooks use."""
    return CommandGateway(plan.programs, slurm_conf or plan.slurm_conf)


def drain(
    door: Gateway, plan: Plan, request: dict[str, Any], seconds: float, refusals: list[float]
) -> Outcome:
    """Drain this node for a request, if the node is ours to touch and the budget has room.

    A read of all nodes and a write, in this node's turn; a turn that passes during the read is waited for
    once more, so that a prolog makes at most three calls.
    """
    before, end = door.calls, time.monotonic() + seconds
    done = None
    for _ in range(_MOST_READS):
        if not turn.wait(plan.node, plan.all_nodes, end - _WRITE_S):
            break
        done = ownership.safe_drain(
            door,
            plan.node,
            request["reason"],
            plan.owners,
            refused_at=refusals,
            room=lambda nodes: _room(nodes, plan, request),
            note=tag.Entry(int(time.time()), _ids(request, "jobs"), _ids(request, "users")),
            deadline=max(0.2, end - time.monotonic()),
        )
        if done.why != NO_TURN:
            break
    if done is None or done.why == NO_TURN:
        return Outcome("held", NO_TURN, door.calls - before)
    return _outcome(done, door.calls - before)


def _room(nodes: list[NodeState], plan: Plan, request: dict[str, Any]) -> states.Answer:
    if not turn.remains(*turn.slot_of(plan.node, plan.all_nodes), time.time()):
        return states.Answer(False, NO_TURN)
    return _asked(nodes, plan, request)


def _asked(nodes: list[NodeState], plan: Plan, request: dict[str, Any]) -> budget.Room:
    return budget.room(
        nodes,
        plan.node,
        plan.budget,
        request["fault"],
        request["scope"],
        request["device"],
        jobs=_ids(request, "jobs"),
        users=_ids(request, "users"),
    )


def _ids(request: dict[str, Any], name: str) -> list[int]:
    """The jobs or users of a request; one that an earlier version left on disk has none."""
    found = request.get(name)
    return [one for one in found if isinstance(one, int)] if isinstance(found, list) else []


def _outcome(done: ownership.Outcome, calls: int) -> Outcome:
    answer = str(done.error) if done.error else ""
    why = done.why
    if done.error:
        silent = isinstance(done.error, SlurmUnreachableError)
        why = "Slurm's controller did not answer" if silent else "Slurm refused"
        return Outcome("failed", why, calls, answer)
    found = Outcome(done.outcome, why, calls)
    found.written = done.written
    found.limit = done.limit
    found.out = done.node is not None and done.node.drained
    found.reason = done.node.reason if done.node is not None else None
    return found


def withdraw_excess(door: Gateway, plan: Plan, request: dict[str, Any]) -> Outcome | None:
    """After a drain: take it back if, all told, the budget was passed and this node is among the last.

    Only needed where several nodes share a turn; None if all is well.
    """
    before = door.calls
    try:
        nodes = door.nodes(deadline=_CALL_S)
    except SlurmError as error:
        return Outcome("failed", "the look after the drain failed", door.calls - before, str(error))
    earlier = _drained_before(nodes, plan.node)
    if earlier is None:
        return None
    room = _asked(earlier, plan, request)
    if room.ok:
        return None
    done = ownership.safe_resume(
        door, plan.node, plan.owners, written=request["reason"], withdraw=True, deadline=_CALL_S
    )
    what = "withdrawn" if done else done.outcome
    found = Outcome(what, f"{room.why}; {done.why}", door.calls - before, str(done.error or ""))
    found.written = done.written
    return found


def _drained_before(nodes: list[NodeState], name: str) -> list[NodeState] | None:
    """All nodes but this one and the drains that came after it (ties by name); None if it is not drained."""
    own = next((one for one in nodes if one.name == name and states.counts_against_budget(one)), None)
    if own is None:
        return None
    mine = (own.reason_time or 0, own.name)
    return [
        one
        for one in nodes
        if one.name != name
        and not (states.counts_against_budget(one) and (one.reason_time or 0, one.name) > mine)
    ]


def resume(door: Gateway, plan: Plan, request: dict[str, Any], refusals: list[float]) -> Outcome:
    """Return this node to service if it is drained with our own reason, unchanged."""
    before = door.calls
    done = ownership.safe_resume(
        door, plan.node, plan.owners, written=request["reason"], refused_at=refusals, deadline=_CALL_S
    )
    return _outcome(done, door.calls - before)


def is_drained(door: Gateway, plan: Plan) -> bool | None:
    """Is this node drained or down? None if Slurm did not answer."""
    try:
        node = door.node(plan.node, deadline=_CALL_S)
    except SlurmError:
        return None
    return node.drained or node.base == "down"


def tell(door: Gateway, request: dict[str, Any]) -> Outcome:
    """Leave a line for the job's owner in the admin comment, if nobody else has written one."""
    before = door.calls
    try:
        written = door.set_admin_comment(request["job_id"], request["text"], deadline=_CALL_S)
        return Outcome(
            "done" if written else "held",
            "" if written else "Slurm no longer knows the job, or it has an admin comment already",
            door.calls - before,
        )
    except SlurmError as error:
        return Outcome("failed", "the job's comment could not be set", door.calls - before, str(error))
