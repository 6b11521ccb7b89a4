"""Which runs of a job are not on record, and what a run could not see: what a verdict does not know."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slurm_guard.core.outcome import TIMEOUT, UNKNOWN
from slurm_guard.store.fleet import SILENCE_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from slurm_guard.diagnosis.accounting import Told
    from slurm_guard.store.model import FindingRow, JobRun, NodeShare, RunRow

_NO_RECORD = (
    "no run of this node is on record: its spool has not been ingested, or the hooks do not run there "
    "(without PrologFlags=Alloc a prolog runs only where a step starts)"
)
_NO_PROLOG = "the prolog did not run, the node rebooted since, or its record has not been ingested"
_NO_END = "the job still runs there, or its epilog has not been ingested"
_NO_EPILOG = "the node went down before its epilog, or its record has not been ingested"


@dataclass(slots=True)
class Missing:
    """Something that is not on record.

    `gap` is True if a whole run is missing: `what` is then prolog, epilog or all. Else runs of the `hooks`
    saw only a part, or an epilog cannot be there yet: `what` is between, epilog, or a source of
    facts; or `checks` could not judge some `devices`.
    """

    node: str
    what: str
    why: str
    gap: bool = True
    hooks: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)


def missing_runs(run: JobRun, told: Told, expected: Iterable[str]) -> list[Missing]:
    """What is missing of a run over its `expected` nodes, whole runs first; one entry for each cause."""
    known = {share.node for share in run.shares}
    found = [Missing(node, "all", _NO_RECORD) for node in expected if node not in known]
    ended = told.ended or any(share.allocation.closed is not None for share in run.shares)
    for share in run.shares:
        found += _of_share(share, ended)
        found += _folded(one for seen in share.runs() for one in _partly(seen))
    return sorted(found, key=lambda one: (not one.gap, one.node))


def _of_share(share: NodeShare, ended: bool) -> Iterator[Missing]:
    if share.prolog is None:
        yield Missing(share.node, "prolog", _NO_PROLOG)
    if share.epilog is None:
        yield Missing(share.node, "epilog", _NO_EPILOG if ended else _NO_END, gap=ended)
    silent = _silent(share)
    if silent:
        yield Missing(share.node, "between", silent, gap=False)


def _silent(share: NodeShare) -> str:
    """That a job ran for long without any health check: they do not run beside jobs, or the node hung."""
    since, until = share.silence or (0, 0)
    if until - since <= SILENCE_MS:
        return ""
    return f"no health check in {round((until - since) / 60_000)} minutes of the job"


def _partly(run: RunRow) -> Iterator[Missing]:
    """What one run could not see, but for what is a finding of its own: a hang, a GPU that is gone."""
    unjudged = [one for one in run.findings if one.status == UNKNOWN]
    said = {one.message for one in unjudged}
    hung = {name for one in run.findings if one.status == TIMEOUT for name in (one.device, one.check)}
    for source, text in run.coverage.items():
        if source != "prolog" and source not in hung and f"{source}: {text}" not in said:
            yield Missing(run.node, source, text, False, [run.hook])
    for one in unjudged:
        yield Missing(run.node, "", _bare(one), False, [run.hook], [one.check], [one.device or ""])
    if run.dropped:
        lost = "1 record was" if run.dropped == 1 else f"{run.dropped} records were"
        yield Missing(run.node, "spool", f"{lost} lost to the spool's bounds", gap=False)
    if run.plan_state not in ("ok", ""):
        yield Missing(run.node, "plan", run.plan_problem or run.plan_state, False, [run.hook])


def _bare(one: FindingRow) -> str:
    """An unknown finding's message without its device, so that the same trouble of two GPUs is one."""
    text = one.message.partition("; see ")[0]
    if one.device and text.startswith(one.device):
        text = text[len(one.device) :].lstrip(" :")
    return text or "it could not be judged"


def _folded(found: Iterable[Missing]) -> list[Missing]:
    """One entry per cause: the hooks, checks and devices of all that share it, in order of appearance."""
    by_cause: dict[tuple[str, str], Missing] = {}
    for one in found:
        known = by_cause.setdefault((one.what, one.why), one)
        for mine, more in (
            (known.hooks, one.hooks),
            (known.checks, one.checks),
            (known.devices, one.devices),
        ):
            mine += [name for name in more if name and name not in mine]
    for one in by_cause.values():
        one.devices = sorted(name for name in one.devices if name)
        one.checks.sort()
    return list(by_cause.values())
