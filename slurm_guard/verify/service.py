"""The order of a verification: fence, end the drain, run the healthcheck, judge, take the fence away."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_guard.core import reason as reasons
from slurm_guard.core.errors import SlurmError
from slurm_guard.engine import files
from slurm_guard.slurm import ownership, states
from slurm_guard.verify import fence
from slurm_guard.verify.fence import CALL_S, Fenced
from slurm_guard.verify.proof import Proof, judge

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurm_guard.core.paths import Places
    from slurm_guard.core.plan import Plan
    from slurm_guard.slurm.command import Reply
    from slurm_guard.slurm.gateway import NodeState
    from slurm_guard.slurm.reserving import ReservingGateway

    #: Runs a command line on the node; what it said.
    Ask = Callable[[list[str]], Reply]

#: For the node to answer again, and for its job to start.
_PATIENCE_S = 60.0
#: Beside the healthcheck's own deadline: Python starts, the prolog runs.
SLACK_S = 40.0
_PAUSE_S = 0.25


@dataclass(frozen=True)
class Subject:
    """What is to be proven: a node, the reason on record of its drain, and checks with faults still open."""

    node: str
    written: str | None = None
    checks: frozenset[str] = frozenset()


@dataclass
class Verified:
    """How it ended: `outcome` as of a resume; `proof` is None where nothing ran; `notes` for people."""

    outcome: ownership.Outcome
    proof: Proof | None = None
    notes: list[str] = field(default_factory=list)


def verify(
    door: ReservingGateway, places: Places, plan: Plan, subject: Subject, ask: Ask | None = None
) -> Verified:
    """Prove a node that the guard drained, and resume it if it is clean. Needs root.

    `plan` is the node's own. With `ask`, the healthcheck is run by that (SSH) instead of as a job: then the
    node stays drained until it is proven, and needs no fence. What `ask` raises is passed on. Leaves no
    reservation behind, except where Slurm answers no more. Never raises SlurmError: the outcome has it.
    """
    done, before = Verified(_held("")), door.calls
    files.make_folder(places.run)
    with files.locked(places.lock(f"verify-{subject.node}"), patience_s=1.0) as alone:
        if not alone:
            return Verified(_held(f"{subject.node} is being verified by another process right now"))
        try:
            done.notes += fence.clean_up(door, plan, subject.node)
            _verify(door, places, plan, subject, done, ask)
        except SlurmError as error:
            done.outcome = _failed(error)
    done.outcome.calls = door.calls - before
    return done


def _verify(
    door: ReservingGateway,
    places: Places,
    plan: Plan,
    subject: Subject,
    done: Verified,
    ask: Ask | None,
) -> None:
    standing = door.node(subject.node, CALL_S)
    if done.notes:  # the node was ours a moment ago: our job may be ending, slurmctld asks it for a sign
        _wait(lambda: _is_still(door.node(subject.node, CALL_S)))
        standing = door.node(subject.node, CALL_S)
    why = _why_not(door, plan, subject, standing)
    if why:
        done.outcome = _held(why, standing)
        return
    reason = reasons.strip_slurms_additions(standing.reason)
    if ask is not None:
        done.proof = judge(ask(_argv(places, subject.node)), plan, subject.node, _wanted(subject, reason))
        done.outcome = _resumed(door, plan, subject, done.proof, standing)
        return
    name, began, proven = fence.new_name(subject.node, reason), time.time(), False
    try:
        door.reserve(name, subject.node, CALL_S)
        done.proof = _prove(door, places, plan, subject, name, reason)
        proven = done.proof.clean and not door.node(subject.node, CALL_S).drained
    finally:  # whatever happens, an interrupt too
        left = _end(door, plan, subject.node, name, "" if proven else reason, began)
    done.outcome = _failed(left) if left else _concluded(subject, done.proof, proven, standing)


def _why_not(door: ReservingGateway, plan: Plan, subject: Subject, standing: NodeState) -> str:
    """What forbids to begin; empty if nothing does."""
    allowed = states.may_resume(standing, plan.owners, subject.written)
    if not allowed:
        return allowed.why
    if standing.base not in ("idle", "down"):
        return f"{subject.node} is {standing}: jobs still run there; again when they have ended"
    foreign = [one.name for one in door.reservations(CALL_S) if subject.node in one.nodes]
    return f"{subject.node} is in reservation {foreign[0]!r}: hands off" if foreign else ""


def _prove(
    door: ReservingGateway, places: Places, plan: Plan, subject: Subject, name: str, reason: str
) -> Proof:
    if not _wait(
        lambda: any(one.name == name and one.state == "ACTIVE" for one in door.reservations(CALL_S))
    ):
        return Proof(False, f"reservation {name} did not become active within {_PATIENCE_S:.0f} s")
    owners, written = plan.owners, subject.written
    opened = ownership.safe_resume(Fenced(door), subject.node, owners, written=written, deadline=CALL_S)
    if not opened.written:
        return Proof(False, opened.why)
    if not _wait(lambda: _answers(door.node(subject.node, CALL_S))):
        return Proof(False, f"{subject.node} did not become idle within {_PATIENCE_S:.0f} s of the resume")
    argv, seconds = _argv(places, subject.node), plan.deadlines["healthcheck"] + SLACK_S
    reply = door.run_in(name, subject.node, argv, _PATIENCE_S, seconds)
    return judge(reply, plan, subject.node, _wanted(subject, reason))


def _resumed(
    door: ReservingGateway, plan: Plan, subject: Subject, proof: Proof, standing: NodeState
) -> ownership.Outcome:
    """Where the node stayed drained while it was proven: end that by the usual rules, if it is clean."""
    if not proof.clean:
        return _concluded(subject, proof, False, standing)
    done = ownership.safe_resume(door, subject.node, plan.owners, written=subject.written, deadline=CALL_S)
    done.why += f"; {proof.why}"
    return done


def _argv(places: Places, node: str) -> list[str]:
    """The healthcheck on the node, where slurm_guard lies as it does here."""
    program = str(Path(sys.executable).parent / "sguard")
    return [
        *(program, "check", "run", "--hook", "healthcheck", "--json", "--record"),
        *("-w", node, "--root", places.root),
    ]


def _wanted(subject: Subject, reason: str) -> set[str]:
    """The checks that must have judged: that of the drain, and those with faults open on record."""
    parsed = reasons.parse(reason)
    return {*subject.checks, *([parsed.fault.partition(".")[0]] if parsed else [])}


def _end(
    door: ReservingGateway, plan: Plan, node: str, name: str, reason: str, began: float
) -> SlurmError | None:
    """Take the fence away; the error with which it still stands."""
    try:
        fence.take_away(door, plan, node, name, reason, began)
    except SlurmError as error:
        left = f"{error}; reservation {name} still keeps jobs off {node}"
        return type(error)(f"{left}: `sguard resume {node} --verify` ends that")
    return None


def _concluded(subject: Subject, proof: Proof | None, proven: bool, standing: NodeState) -> ownership.Outcome:
    if proof is None or not proof.clean:
        why = proof.why if proof else "it was cut short"
        return _held(f"{subject.node} stays drained, since it is not proven: {why}", standing)
    if not proven:
        return _held(f"{subject.node} is clean, but it was drained again meanwhile", standing)
    why = f"resumed; it was drained with {standing.reason!r}; {proof.why}"
    outcome = ownership.Outcome(ownership.DONE, why)
    outcome.written, outcome.node = True, standing
    return outcome


def _is_still(state: NodeState) -> bool:
    return state.base in ("idle", "down") and state.flags.isdisjoint({"NOT_RESPONDING", "COMPLETING"})


def _answers(state: NodeState) -> bool:
    return state.base == "idle" and not state.drained and "NOT_RESPONDING" not in state.flags


def _wait(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(_PAUSE_S)
    return True


def _held(why: str, node: NodeState | None = None) -> ownership.Outcome:
    outcome = ownership.Outcome(ownership.HELD, why)
    outcome.node = node
    return outcome


def _failed(error: SlurmError) -> ownership.Outcome:
    outcome = ownership.Outcome(ownership.FAILED, str(error))
    outcome.error = error
    return outcome
