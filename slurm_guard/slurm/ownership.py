"""Drain and resume without stepping on anybody: read right before the write, and write only what is ours.

Slurm cannot compare and swap, so a window stays between the read and the write. It is kept at or below
50 ms: whatever was read longer ago is read again.
"""

from __future__ import annotations

import time

from slurm_guard.core import reason as reasons
from slurm_guard.core import tag
from slurm_guard.core.errors import SlurmError
from slurm_guard.slurm import states
from slurm_guard.slurm.gateway import DEADLINE_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from slurm_guard.slurm.gateway import Gateway, NodeState

    #: Is there room in the budget, seen all nodes? With the sentence that says why.
    Room = Callable[[list[NodeState]], states.Answer]
    Rule = Callable[[NodeState], states.Answer]

#: The longest time between the read that allows a write and the write.
FRESH_S = 0.05
_DAY_S = 86400
_MOST_READS = 4

DONE, HELD, FAILED = "done", "held", "failed"


class Outcome:
    """What became of a drain or resume.

    `outcome` is `done` (written, or already so), `held` (the node is not ours to touch, or no room in the
    budget) or `failed` (`error` says what Slurm did); `why` is a sentence, `calls` the calls to Slurm,
    `written` whether this very call changed the node, `node` its state as last read before the write; `limit`
    names the limit of the budget that held it.
    """

    __slots__ = ("calls", "error", "limit", "node", "outcome", "why", "written")

    def __init__(self, outcome: str, why: str) -> None:
        self.outcome = outcome
        self.why = why
        self.calls = 0
        self.limit = ""
        self.written = False
        self.error: SlurmError | None = None
        self.node: NodeState | None = None

    def __bool__(self) -> bool:
        return self.outcome == DONE

    def __repr__(self) -> str:
        return f"Outcome({self.outcome}, {self.why!r}, calls={self.calls})"


class _Attempt:
    """One drain or resume under way: what was read when, and how much time is left."""

    def __init__(self, gateway: Gateway, name: str, deadline: float) -> None:
        self.gateway = gateway
        self.name = name
        self.end = time.monotonic() + deadline
        self.node: NodeState | None = None

    def left(self) -> float:
        return max(self.end - time.monotonic(), 0.05)

    def read(self) -> NodeState:
        self.node = self.gateway.node(self.name, self.left())
        return self.node

    def pick(self, nodes: Iterable[NodeState]) -> NodeState:
        self.node = next((node for node in nodes if node.name == self.name), None)
        return self.node or self.read()

    def refusal(self, node: NodeState, rule: Rule) -> str:
        """Why the node may not be written, asked about a fresh read of it; empty if it may."""
        for _ in range(_MOST_READS):
            allowed = rule(node)
            if not allowed:
                return allowed.why
            if time.monotonic() - node.read_at <= FRESH_S:
                return ""
            node = self.read()
        return f"{self.name}: no write within {FRESH_S * 1000:.0f} ms of a read; this host is too slow now"


def safe_drain(
    gateway: Gateway,
    name: str,
    reason: str,
    owners: Iterable[str],
    *,
    written: str | None = None,
    refused_at: Iterable[float] | None = None,
    room: Room | None = None,
    nodes: list[NodeState] | None = None,
    note: tag.Entry | None = None,
    deadline: float = DEADLINE_S,
) -> Outcome:
    """Drain a node, unless it is somebody else's or the budget has no room. Never raises SlurmError.

    Two calls as a rule: a read (of all nodes, if `room` asks for them and `nodes` does not hold them) and
    the write. A node that is drained with a reason of ours keeps it: the first fault stays the reason.
    `note` goes to the node's comment with the same call, unless a person's stands there.
    """
    users, refusals = list(owners), list(refused_at or ())

    def rule(node: NodeState) -> states.Answer:
        return states.may_drain(node, users, written, refusals)

    def act(attempt: _Attempt) -> Outcome:
        seen = nodes if nodes is not None or room is None else gateway.nodes(None, attempt.left())
        node = attempt.pick(seen) if seen is not None else attempt.read()
        ours = states.is_drained_by_us(node, users, written, refusals)
        if ours and node.reason not in states.REFUSALS:
            return Outcome(DONE, f"{ours.why}; nothing to write")
        allowed = rule(node)
        if allowed and room is not None:
            allowed = room(seen or [node])
        refusal = attempt.refusal(node, rule) if allowed else allowed.why
        if refusal:
            held = Outcome(HELD, refusal)
            held.limit = getattr(allowed, "limit", "")
            return held
        comment = None if note is None else tag.added((attempt.node or node).comment, note, note.at - _DAY_S)
        gateway.drain(name, reasons.clean(reason), attempt.left(), comment)
        return _written(f"drained: {reasons.clean(reason)}")

    return _guarded(gateway, name, deadline, act)


def safe_resume(
    gateway: Gateway,
    name: str,
    owners: Iterable[str],
    *,
    written: str | None = None,
    refused_at: Iterable[float] | None = None,
    withdraw: bool = False,
    deadline: float = DEADLINE_S,
) -> Outcome:
    """End a node's drain if it is ours and unchanged. Two calls as a rule. Never raises SlurmError.

    With `withdraw` the drain counts as never made: its note goes from the node's comment too.
    """
    users, refusals = list(owners), list(refused_at or ())

    def rule(node: NodeState) -> states.Answer:
        return states.may_resume(node, users, written, refusals)

    def act(attempt: _Attempt) -> Outcome:
        node = attempt.read()
        if not node.drained and states.may_drain(node, users):  # in service, and nobody claims it
            return Outcome(DONE, f"{name} is {node}: not drained, nothing to resume")
        refusal = attempt.refusal(node, rule)
        if refusal:
            return Outcome(HELD, refusal)
        comment = tag.taken_back((attempt.node or node).comment) if withdraw else None
        gateway.resume(name, attempt.left(), comment)
        return _written(f"resumed; it was drained with {node.reason!r}")

    return _guarded(gateway, name, deadline, act)


def _written(why: str) -> Outcome:
    outcome = Outcome(DONE, why)
    outcome.written = True
    return outcome


def _guarded(gateway: Gateway, name: str, deadline: float, act: Callable[[_Attempt], Outcome]) -> Outcome:
    attempt, before = _Attempt(gateway, name, deadline), gateway.calls
    try:
        outcome = act(attempt)
    except SlurmError as error:
        outcome = Outcome(FAILED, str(error))
        outcome.error = error
    outcome.calls = gateway.calls - before
    outcome.node = attempt.node
    return outcome
