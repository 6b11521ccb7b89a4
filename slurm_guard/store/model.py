"""What the store answers with: plain data, times in milliseconds since 1970 (UTC)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from slurm_guard.core.outcome import PASS, SKIP, worst

#: How records without `written` say that an action found the node as it should be.
_WROTE_NOTHING = re.compile(r"nothing to |no further room needed| \(asked \d+ s ago\)$")


@dataclass(slots=True)
class FindingRow:
    """A judged fact that is neither pass nor skip, with the node, run and time it was seen."""

    run: int
    node: str
    at: int
    check: str
    fault: str
    status: str
    device: str = ""
    device_id: str | None = None
    message: str = ""
    metric: str | None = None
    value: float | None = None
    value_text: str | None = None
    unit: str | None = None
    reference: Any = None
    blame: str | None = None
    scope: str | None = None
    tier: str | None = None
    event: bool = False
    since: str | None = None
    remedy: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    node_id: int = 0


@dataclass(slots=True)
class ActionRow:
    """Something that was done, would have been done, or was held back; `by` is a hook or `cli`.

    `asked` is the id of the run that called for it: what a run planned and what became of it share it.
    `written` says whether a `done` changed the node or found it so; None where the record does not tell.
    """

    run: int
    node: str
    at: int
    action: str
    fault: str
    device: str
    reason: str | None
    outcome: str
    why: str | None
    answer: str | None
    calls: int | None
    job_id: int | None
    by: str
    user: str | None
    mode: str | None
    node_id: int = 0
    asked: str = ""
    written: bool | None = None

    @property
    def changed_nothing(self) -> bool:
        """True for a drain or resume that found the node as it should be."""
        if self.written is not None:
            return not self.written
        return _WROTE_NOTHING.search(self.why or "") is not None


@dataclass(slots=True)
class RunRow:
    """One run of a hook on a node; `findings`, `values`, `growths` and `answers` where the query asked.

    `answers` are the actions that this run called for, from its own record and from those that followed.
    """

    id: int
    run_id: str
    cluster: str
    node: str
    hook: str
    started: int
    status: str
    elapsed_ms: float | None = None
    uptime_s: float | None = None
    boot_id: str = ""
    machine_id: str = ""
    serial: str = ""
    guard_version: str = ""
    check_set: str = ""
    plan_hash: str = ""
    plan_state: str = ""
    plan_problem: str = ""
    mode: str | None = None
    drill: bool = False
    passed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    job_id: int | None = None
    restart: int | None = None
    others: list[dict[str, Any]] = field(default_factory=list)
    coverage: dict[str, str] = field(default_factory=dict)
    decisions: list[dict[str, Any]] = field(default_factory=list)
    dropped: int = 0
    exit: int = 0
    findings: list[FindingRow] = field(default_factory=list)
    values: dict[str, float] = field(default_factory=dict)
    growths: dict[str, float] = field(default_factory=dict)
    answers: list[ActionRow] = field(default_factory=list)

    @property
    def ended(self) -> int:
        """When the run ended."""
        return self.started + round(self.elapsed_ms or 0)

    @property
    def refused(self) -> bool:
        """True if this prolog refused its job. A refusing run's own record leaves open how it ended."""
        return self.hook == "prolog" and (self.exit == 75 or self.refusal("done") is not None)

    def refusal(self, outcome: str) -> ActionRow | None:
        """The refusal that this run called for and that ended so (`done`, `held`, `observed` …), if any."""
        refusals = (one for one in self.answers if one.action == "refuse")
        return next((one for one in refusals if one.outcome == outcome), None)


@dataclass(slots=True)
class Allocation:
    """One run of a job on one node. `closed` is None while no epilog is on record.

    `opened_sure` is False for an epilog without a prolog: `opened` is then the epilog's own time, and
    `restart` the count in its environment, which is already the next run's after a requeue.
    """

    id: int
    cluster: str
    node: str
    job_id: int
    opened: int
    opened_sure: bool = True
    restart: int | None = None
    restart_sure: bool = True
    start_time: int | None = None
    array_job_id: int | None = None
    array_task_id: int | None = None
    het_job_id: int | None = None
    uid: int | None = None
    user: str | None = None
    partition: str | None = None
    nodes: str | None = None
    gpus: list[str] = field(default_factory=list)
    exit_code: str | None = None
    closed: int | None = None
    prolog_run: int | None = None
    epilog_run: int | None = None


@dataclass(slots=True)
class NodeShare:
    """One node's part in one run of a job: the hooks' runs, and the node's runs in between.

    `between` counts the other runs on the node by status, `events` are those among them that were not
    clean; `after` are not-clean runs within the five minutes after the end. `actions` is what was done on
    the node from the start until half an hour after the end, oldest first. `silence` is the longest time
    in which no run began, None for a share that has not ended.
    """

    allocation: Allocation
    prolog: RunRow | None = None
    epilog: RunRow | None = None
    between: dict[str, int] = field(default_factory=dict)
    events: list[RunRow] = field(default_factory=list)
    after: list[RunRow] = field(default_factory=list)
    neighbours: list[Allocation] = field(default_factory=list)
    actions: list[ActionRow] = field(default_factory=list)
    silence: tuple[int, int] | None = None

    @property
    def node(self) -> str:
        """Slurm's NodeName."""
        return self.allocation.node

    @property
    def between_status(self) -> str:
        """The worst status of the runs in between; `skip` when there were none."""
        return worst(self.between)

    def runs(self) -> list[RunRow]:
        """All runs that are loaded, in order of time."""
        hooks = [run for run in (self.prolog, self.epilog) if run is not None]
        return sorted((*hooks, *self.events, *self.after), key=lambda run: run.started)


@dataclass(slots=True)
class JobRun:
    """One run of a job over all its nodes; a requeued job has several, told apart by restart and time."""

    cluster: str
    job_id: int
    restart: int | None
    shares: list[NodeShare]

    @property
    def first(self) -> Allocation:
        """The allocation that was opened first; it stands for the job's identity."""
        return min(
            (share.allocation for share in self.shares), key=lambda one: (not one.opened_sure, one.opened)
        )

    @property
    def opened(self) -> int:
        """When the first node was given."""
        return self.first.opened

    @property
    def closed(self) -> int | None:
        """When the last node was given back, as far as epilogs are on record; None without any."""
        ends = [share.allocation.closed for share in self.shares]
        return max((end for end in ends if end is not None), default=None)

    @property
    def exit_code(self) -> str | None:
        """The first exit code that an epilog told, `0:0` only if no epilog told another."""
        told = [share.allocation.exit_code for share in self.shares if share.allocation.exit_code]
        return next((code for code in told if code != "0:0"), told[0] if told else None)


@dataclass(slots=True)
class NodeState:
    """A node as its records show it: its last run, and what is open."""

    cluster: str
    node: str
    last: RunRow | None
    open_faults: list[FindingRow] = field(default_factory=list)
    drained_by: ActionRow | None = None

    @property
    def status(self) -> str:
        """The worst of the last run and of what is open."""
        found = [finding.status for finding in self.open_faults]
        return worst([*found, self.last.status] if self.last else found)


@dataclass(slots=True)
class Gap:
    """A time in which a node left no run on record, or a run that could not see everything."""

    node: str
    start: int
    end: int
    why: str


CLEAN = (PASS, SKIP)
