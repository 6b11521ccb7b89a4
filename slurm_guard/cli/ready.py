"""`sguard ready`: is this node fit for jobs? For the moment between boot and slurmd's start."""

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slurm_guard.cli import options, output
from slurm_guard.cli.host import Host
from slurm_guard.core.context import Context
from slurm_guard.core.outcome import UNKNOWN
from slurm_guard.core.policy import History, decide
from slurm_guard.engine import node_state, run_once

if TYPE_CHECKING:
    from slurm_guard.core.outcome import Finding
    from slurm_guard.engine.run_once import RunOutcome

#: Between two looks; a look takes some tens of milliseconds.
PAUSE_S = 2.0
_LONGEST_WAIT_S = 86400.0


def ready(
    wait: Annotated[
        float,
        typer.Option(
            "--wait", metavar="S", min=0, max=_LONGEST_WAIT_S, help="Look again for so many seconds."
        ),
    ] = 0,
    node: Annotated[
        str | None, typer.Option("-w", "--node", metavar="NODE", help="This host's NodeName.")
    ] = None,
    root: options.Root = "/",
    as_json: options.Json = False,
) -> int:
    """Say whether this node is fit for jobs, before slurmd starts.

    It is not while it shows anything that would drain it, in whatever mode; a boot gets no grace here. What
    cannot be judged is waited for, and keeps no node out in the end. Slurm is not called, nothing is
    recorded. Ends with 0 if the node is ready, with 1 if it is not.
    """
    host = Host(root, node)
    look = _wait(host, wait)
    if as_json:
        output.emit_json("ready", look.as_dict(host))
    else:
        look.show(host)
    return 0 if look.is_ready else 1


class Look:
    """What one look at the node found: `holding` keeps it out, `unknown` could not be judged."""

    def __init__(self, host: Host) -> None:
        self.waited_s = 0.0
        outcome = run_once.run_checks(
            host.places, host.plan, Context("healthcheck", {"SLURMD_NODENAME": host.node})
        )
        _remember_hangs(host, outcome)
        self.holding = _holding(host, outcome)
        self.unknown = [one for one in outcome.findings if one.status == UNKNOWN]

    @property
    def is_ready(self) -> bool:
        """True if nothing is seen that would drain the node."""
        return not self.holding

    @property
    def waits_for(self) -> str:
        """What is not there yet, in one line; empty if nothing is awaited."""
        return "; ".join(_told(one) for one in [*self.holding, *self.unknown])

    def as_dict(self, host: Host) -> dict[str, Any]:
        """The JSON answer."""
        return {
            "node": host.node,
            "ready": self.is_ready,
            "waited_s": round(self.waited_s, 1),
            "plan": {"hash": host.plan.hash, "state": host.plan.state, "problem": host.plan.problem},
            "holding": [one.as_dict() for one in self.holding],
            "unknown": [one.as_dict() for one in self.unknown],
        }

    def show(self, host: Host) -> None:
        """One sentence, and a line for all that stands behind it."""
        after = f" after {self.waited_s:.0f} s" if self.waited_s else ""
        print(f"{host.node}: {'ready' if self.is_ready else 'not ready'}{after}")
        for one in self.holding:
            output.warn(f"{_told(one)}. {one.remedy}".rstrip())
        for one in self.unknown:
            output.warn(f"not judged, keeps nobody out: {_told(one)}")
        for problem in (host.places.node_problem, host.plan_note(), host.class_note()):
            if problem:
                output.warn(problem)


def _wait(host: Host, seconds: float) -> Look:
    """Look until all is there or the time is up; each change is told on stderr."""
    began, told = time.monotonic(), ""
    host.plan.grace_s = 0.0
    while True:
        look = Look(host)
        look.waited_s = time.monotonic() - began
        left = seconds - look.waited_s
        if not look.waits_for or left <= 0:
            return look
        if look.waits_for != told:
            told = look.waits_for
            output.warn(f"{host.node} waits for: {told}")
        time.sleep(min(PAUSE_S, left))


def _holding(host: Host, outcome: "RunOutcome") -> "list[Finding]":
    """The findings that would drain the node, were each of them seen for the last time that is needed."""
    findings = outcome.findings
    certain = History(relapsed=[(one.fault, one.device or "") for one in findings], idle=True)
    decisions = decide(findings, host.plan, "healthcheck", (), certain)
    drains = {(one.fault, one.device) for one in decisions if one.action == "drain"}
    return [one for one in findings if (one.fault, one.device or "") in drains]


def _remember_hangs(host: Host, outcome: "RunOutcome") -> None:
    """What hangs in the kernel is left alone by the next look, and by the hooks."""
    if outcome.reading.hangs:
        outcome.state.kmsg_last = None  # the first hook run is the one that reads the log
        try:
            node_state.save(host.places, outcome.state, outcome.reading.hangs)
        except OSError as error:
            output.warn(f"{host.places.state}: not written: {error.strerror}")


def _told(finding: "Finding") -> str:
    return f"{finding.fault} {finding.device or ''}".strip() + f": {finding.message}"
