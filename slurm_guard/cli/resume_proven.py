"""`sguard resume --verify`: the proof first, and what it proved."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from slurm_guard import actions
from slurm_guard.cli import output
from slurm_guard.cli.door import reserving_door
from slurm_guard.core import plan as plans
from slurm_guard.core.errors import SetupError
from slurm_guard.verify import Subject, verify
from slurm_guard.verify.service import SLACK_S

if TYPE_CHECKING:
    from slurm_guard.cli.host import Host
    from slurm_guard.core.plan import Plan
    from slurm_guard.slurm.command import Reply
    from slurm_guard.verify import Verified
    from slurm_guard.verify.service import Ask


def run(
    host: Host, node: str, written: str | None, checks: frozenset[str], *, ssh: bool, as_json: bool
) -> int:
    """Prove the node and resume it; 1 if it is not proven. Raises as `sguard resume`, or RemoteError."""
    if os.geteuid() != 0:
        raise SetupError("--verify reserves the node for root and runs a job as root; run as root (sudo)")
    of_node = plans.load(host.places.plan, node)
    subject, ask = Subject(node, written, checks), _by_ssh(host, node, of_node) if ssh else None
    done = verify(reserving_door(host), host.places, of_node, subject, ask)
    recorded = actions.resumed(host.places, host.plan, node, done.outcome, written)
    for note in (*done.notes, recorded.unrecorded):
        if note:
            output.warn(note)
    refuted = done.proof is not None and not done.proof.clean and done.outcome.error is None
    if not refuted:
        actions.ensure(done.outcome)
    _tell(node, done, as_json)
    return 1 if refuted else 0


def _by_ssh(host: Host, node: str, plan: Plan) -> Ask:
    """What runs a command on the node, by the settings of [collect]."""
    from dataclasses import replace

    from slurm_guard.cli.collect import ways
    from slurm_guard.config.collect import PLAIN_COMMAND
    from slurm_guard.remote.ask import ask

    (target,), access = ways(host, [node])

    def run_there(argv: list[str]) -> Reply:
        command = " ".join(argv)
        if PLAIN_COMMAND.fullmatch(command) is None:
            raise SetupError(f"{command!r} has letters that mean something to a shell")
        seconds = plan.deadlines["healthcheck"] + SLACK_S
        return ask(target, replace(access, command=command, transfer_s=seconds))

    return run_there


def _tell(node: str, done: Verified, as_json: bool) -> None:
    if as_json:
        proof = done.proof.as_dict() if done.proof else None
        answer = {"node": node, "written": done.outcome.written, "why": done.outcome.why, "proof": proof}
        output.emit_json("resume", answer)
        return
    for line in done.proof.found if done.proof else ():
        print(f"  {output.printable(line)}")
    print(actions.in_words(node, done.outcome) if done.outcome.written else done.outcome.why)
