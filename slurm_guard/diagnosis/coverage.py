"""Which runs of a job are not on record, and why: what a verdict does not know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurm_guard.store.fleet import SILENCE_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from slurm_guard.diagnosis.accounting import Told
    from slurm_guard.store.model import JobRun, NodeShare, RunRow

_NO_RECORD = (
    "no run of this node is on record: its spool has not been ingested, or the hooks do not run there "
    "(without PrologFlags=Alloc a prolog runs only where a step starts)"
)
_NO_PROLOG = "the prolog did not run, the node rebooted since, or its record has not been ingested"
_NO_EPILOG = "the node went down before its epilog, or its record has not been ingested"


@dataclass(slots=True)
class Missing:
    """Something that is not on record: `what` is prolog, epilog, all, between, or a source of facts.

    `gap` is True if a whole run is missing, False if a run saw only a part.
    """

    node: str
    what: str
    why: str
    gap: bool = True


def missing_runs(run: JobRun, told: Told, expected: Iterable[str]) -> list[Missing]:
    """What is missing of a run over its `expected` nodes, whole runs first."""
    known = {share.node for share in run.shares}
    found = [Missing(node, "all", _NO_RECORD) for node in expected if node not in known]
    ended = told.ended or any(share.allocation.closed is not None for share in run.shares)
    for share in run.shares:
        found += _of_share(share, ended)
    return sorted(found, key=lambda one: (not one.gap, one.node))


def _of_share(share: NodeShare, ended: bool) -> Iterator[Missing]:
    if share.prolog is None:
        yield Missing(share.node, "prolog", _NO_PROLOG)
    if share.epilog is None and ended:
        yield Missing(share.node, "epilog", _NO_EPILOG)
    closed = share.allocation.closed
    if closed is not None and not share.between and closed - share.allocation.opened > SILENCE_MS:
        minutes = round((closed - share.allocation.opened) / 60_000)
        yield Missing(share.node, "between", f"no health check in {minutes} minutes of the job", gap=False)
    for run in share.runs():
        yield from _partly(run)


def _partly(run: RunRow) -> Iterator[Missing]:
    for source, text in run.coverage.items():
        if source != "prolog":
            yield Missing(run.node, source, f"{run.hook}: {text}", gap=False)
    unknown = sorted({one.check for one in run.findings if one.status == "unknown"})
    for check in unknown:
        message = next(one.message for one in run.findings if one.check == check and one.status == "unknown")
        yield Missing(run.node, check, f"{run.hook} could not judge it: {message}", gap=False)
    if run.dropped:
        yield Missing(run.node, "spool", f"{run.dropped} records were lost to the spool's bounds", gap=False)
    if run.plan_state not in ("ok", ""):
        yield Missing(run.node, "plan", f"{run.hook}: {run.plan_problem or run.plan_state}", gap=False)
