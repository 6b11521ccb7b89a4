"""The parts of a job report as JSON: verdict, node table, other jobs, coverage."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from slurm_guard.report.changes import changes
from slurm_guard.report.layout import iso
from slurm_guard.store import jobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurm_guard.diagnosis import Evidence, Missing, Verdict
    from slurm_guard.store import Store
    from slurm_guard.store.model import Allocation, FindingRow, JobRun, NodeShare, RunRow

_DAY_MS = 86_400_000
_MOST_OTHERS = 50


def verdict_of(verdict: Verdict) -> dict[str, Any]:
    """A verdict with all its evidence."""
    return {
        "blame": verdict.blame,
        "confidence": verdict.confidence,
        "what": verdict.what,
        "why": verdict.why,
        "node": verdict.node or None,
        "device": verdict.device or None,
        "fault": verdict.fault or None,
        "resubmit": {"safe": verdict.safe, "why": verdict.safe_why},
        "next_step": verdict.next_step,
        "causes": [_cause(one) for one in verdict.causes],
    }


def _cause(one: Evidence) -> dict[str, Any]:
    return {
        "node": one.node,
        "phase": one.phase,
        "seen_by": one.seen_by,
        "at": iso(one.at),
        "grade": one.grade,
        "echo": one.echo,
        "given": one.given,
        "refusal": one.refusal,
        "blame": one.blame,
        "shared_with": one.shared_with,
        "reasons": one.reasons,
        **_finding(one.finding),
    }


def _finding(one: FindingRow) -> dict[str, Any]:
    """A finding as reports show it."""
    names = ("fault", "status", "device", "device_id", "message", "metric", "value", "unit", "reference")
    return {
        **{name: getattr(one, name) for name in names},
        "tier": one.tier,
        "scope": one.scope,
        "event": one.event,
    }


def share_of(share: NodeShare, verdict: Verdict) -> dict[str, Any]:
    """One node of the node table: its hooks, what was found there and what changed."""
    own = share.allocation
    any_run = share.epilog or share.prolog
    changed = changes(share)
    return {
        "node": share.node,
        "machine": {
            name: getattr(any_run, name) if any_run is not None else None
            for name in ("machine_id", "serial", "boot_id")
        },
        "gpus": own.gpus,
        "prolog": _hook(share.prolog),
        "during": {"status": share.between_status if share.between else None, "runs": share.between},
        "epilog": _hook(share.epilog),
        "findings": [
            _cause(one) for one in sorted(verdict.causes, key=lambda c: c.at) if one.node == share.node
        ],
        "changes": None if changed is None else [asdict(one) for one in changed],
    }


def _hook(run: RunRow | None) -> dict[str, Any] | None:
    if run is None:
        return None
    return {
        "run_id": run.run_id,
        "at": iso(run.started),
        "status": run.status,
        "elapsed_ms": run.elapsed_ms,
        "refused": run.refused,
        "mode": run.mode,
        "drill": run.drill,
    }


def others_of(store: Store, run: JobRun, verdict: Verdict) -> list[dict[str, Any]]:
    """Other jobs on the suspect node: those that ran at the same time, and those that failed within a day."""
    share = next((share for share in run.shares if share.node == verdict.node), None)
    if share is None:
        return []
    beside = {one.id for one in share.neighbours}
    end = share.allocation.closed
    until = None if end is None else end + _DAY_MS
    near = jobs.jobs_on(store, share.node, share.allocation.opened - _DAY_MS, until, run.cluster)
    found = [_other(one, one.id in beside) for one in reversed(near) if one.job_id != run.job_id]
    return [one for one in found if one["at_the_same_time"] or one["suffered"]][:_MOST_OTHERS]


def _other(one: Allocation, beside: bool) -> dict[str, Any]:
    return {
        "at_the_same_time": beside,
        "node": one.node,
        "job_id": one.job_id,
        "user": one.user,
        "gpus": one.gpus,
        "opened": iso(one.opened) if one.opened_sure else None,
        "closed": iso(one.closed),
        "exit_code": one.exit_code,
        "suffered": None if one.exit_code is None else one.exit_code != "0:0",
    }


def coverage_of(missing: Sequence[Missing]) -> dict[str, Any]:
    """What is not on record, whole runs and parts of runs."""
    rows = [{"node": one.node, "what": one.what, "why": one.why} for one in missing if one.gap]
    partly = [
        {
            "node": one.node,
            "what": one.what or None,
            "hooks": one.hooks,
            "checks": one.checks,
            "devices": one.devices,
            "why": one.why,
        }
        for one in missing
        if not one.gap
    ]
    return {"complete": not rows and not partly, "missing": rows, "partial": partly}
