"""The reservation that keeps everybody else off a node while it is proven."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from slurm_guard.core import reason as reasons
from slurm_guard.core.errors import SlurmError
from slurm_guard.slurm import ownership, states
from slurm_guard.slurm.gateway import Gateway

if TYPE_CHECKING:
    from slurm_guard.core.plan import Plan
    from slurm_guard.slurm.gateway import NodeState
    from slurm_guard.slurm.reserving import Reservation, ReservingGateway

PREFIX = "sguard_verify"
#: Calls by hand may take longer than those of hooks.
CALL_S = 10.0
#: For jobs that were cancelled to end, so that their reservation can go.
_ENDING_S = 60.0
_PAUSE_S = 0.25
#: Two verifications of one node from two hosts must not take each other's fence for their own.
_NONCE_BYTES = 4


class Fenced(Gateway):
    """The door as the ownership rules may see it behind our own fence, which is nobody else's claim."""

    def __init__(self, door: Gateway) -> None:
        self._door = door

    def node(self, name: str, deadline: float = CALL_S) -> NodeState:
        """The node without the mark that our reservation gives it."""
        self.calls += 1
        found = self._door.node(name, deadline)
        found.flags -= {"MAINTENANCE"}
        return found

    def drain(self, name: str, reason: str, deadline: float = CALL_S, comment: str | None = None) -> None:
        """See Gateway."""
        self.calls += 1
        self._door.drain(name, reason, deadline, comment)

    def resume(self, name: str, deadline: float = CALL_S, comment: str | None = None) -> None:
        """See Gateway."""
        self.calls += 1
        self._door.resume(name, deadline, comment)


def new_name(node: str, reason: str) -> str:
    """The name of a fence: whose node it is, and what it is drained again with if the proof fails."""
    return f"{PREFIX}/{node}/{os.urandom(_NONCE_BYTES).hex()}/{quote(reason, safe=':._-')}"


def reason_of(one: Reservation, node: str) -> str | None:
    """The reason for which a node was drained, if a reservation is one of our fences for it; else None."""
    prefix, _, rest = one.name.partition("/")
    name, _, rest = rest.partition("/")
    nonce, _, quoted = rest.partition("/")
    reason = unquote(quoted)
    is_ours = (prefix, name, len(nonce)) == (PREFIX, node, 2 * _NONCE_BYTES)
    alone = one.nodes == {node} and one.users == ("root",) and one.flags >= {"MAINT", "IGNORE_JOBS"}
    return reason if is_ours and alone and reasons.is_ours_unchanged(reason, reason) else None


def clean_up(door: ReservingGateway, plan: Plan, node: str) -> list[str]:
    """End what an earlier call left: drain the node again, then take its fence away. What was done.

    Only reservations of our own shape are touched: our name, this node alone, root's, for maintenance.
    Raises SlurmError; then the fence still stands.
    """
    found = []
    for one in door.reservations(CALL_S):
        reason = reason_of(one, node)
        if reason is not None:
            take_away(door, plan, node, one.name, reason)
            found.append(f"{node}: removed {one.name}, which an earlier verification had left")
    return found


def take_away(
    door: ReservingGateway, plan: Plan, node: str, name: str, reason: str, began: float | None = None
) -> None:
    """Take a fence away; with a reason, only once the node is drained again. Raises SlurmError.

    `began` (unix seconds) is when the node was fenced, where this very process did it.
    """
    if reason:
        _drain_again(door, plan, node, reason, began)
    door.cancel_in(name, CALL_S)
    end = time.monotonic() + _ENDING_S
    while True:
        try:
            return door.unreserve(name, CALL_S)
        except SlurmError:
            if time.monotonic() > end:
                raise
            time.sleep(_PAUSE_S)


def _drain_again(door: Gateway, plan: Plan, node: str, reason: str, began: float | None) -> None:
    """The reason that stood before the proof, unless somebody else keeps the node out of service by now."""
    state = door.node(node, CALL_S)
    # A prolog that failed while only we could use the node failed for our own job.
    ours = began is not None and state.reason_time is not None and state.reason_time >= int(began)
    refused = [float(state.reason_time or 0)] if ours and state.reason in states.REFUSALS else []
    done = ownership.safe_drain(Fenced(door), node, reason, plan.owners, refused_at=refused, deadline=CALL_S)
    if done.error is not None:
        raise done.error
    out = done.node is not None and (done.node.drained or done.node.base == "down")
    if not done and not out:
        raise SlurmError(f"{node} could not be drained again: {done.why}")
