"""The report on a job: `build` makes the JSON object of docs/job-report.md, `text` a page of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from slurm_guard import __version__
from slurm_guard.core.errors import NotFoundError
from slurm_guard.diagnosis import Told, Verdict, diagnose, missing_runs, not_on_record, told_by
from slurm_guard.report.actions import events
from slurm_guard.report.changes import changes
from slurm_guard.report.fleet import StoreFleet
from slurm_guard.report.job_text import text
from slurm_guard.report.layout import iso
from slurm_guard.store import jobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurm_guard.diagnosis import Evidence, Missing
    from slurm_guard.store import Store
    from slurm_guard.store.model import Allocation, FindingRow, JobRun, NodeShare, RunRow

__all__ = ["SCHEMA", "build", "text"]

SCHEMA = "1.0"
_MOST_EXPECTED = 20_000
_DAY_MS = 86_400_000
_MOST_OTHERS = 50


def build(
    store: Store,
    job_id: int,
    accounting: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    cluster: str | None = None,
) -> dict[str, Any]:
    """The report on all runs of a job, oldest first.

    `accounting` is what Slurm told (see `diagnosis.accounting.told_by`) and may be missing. Raises
    NotFoundError if neither the store nor accounting knows the job, StoreError if the store fails.
    """
    runs = jobs.job_runs(store, job_id, cluster)
    told = told_by(accounting, runs)
    if not runs:
        return _without_runs(job_id, accounting, cluster)
    built = [_run(store, run, one) for run, one in zip(runs, told, strict=True)]
    waits = not_on_record(accounting, runs)
    return {**_head(job_id, runs[-1], told[-1]), "later": _later(waits), "runs": built}


def _later(waits: Told | None) -> dict[str, Any] | None:
    """The run that Slurm knows and no record does, as for a requeued job that waits."""
    if waits is None:
        return None
    told = {name: getattr(waits, name) or None for name in ("state", "reason", "nodes")}
    return {**told, "restart": waits.restarts, "started": iso(waits.start)}


def _head(job_id: int, run: JobRun, told: Told) -> dict[str, Any]:
    first = run.first
    return {
        "schema": SCHEMA,
        "kind": "job",
        "generated": iso(round(time.time() * 1000)),
        "guard_version": __version__,
        "cluster": run.cluster,
        "job_id": job_id,
        "array_job_id": first.array_job_id,
        "array_task_id": first.array_task_id,
        "het_job_id": first.het_job_id,
        "user": told.user or first.user,
        "uid": first.uid,
        "account": told.account or None,
        "name": told.name or None,
        "partition": told.partition or first.partition,
        "accounting_problem": told.problem or None,
    }


def _without_runs(job_id: int, accounting: Any, cluster: str | None) -> dict[str, Any]:
    """Slurm knows the job and the store does not: say so, and never that all is well."""
    given = [accounting] if isinstance(accounting, Mapping) else list(accounting or ())
    known = [one for one in given if not one.get("problem") and one.get("state")]
    if not known:
        raise NotFoundError(_nobody_knows(job_id, cluster, given, asked=accounting is not None))
    last = known[-1]
    return {
        "schema": SCHEMA,
        "kind": "job",
        "generated": iso(round(time.time() * 1000)),
        "guard_version": __version__,
        "cluster": cluster or "",
        "job_id": job_id,
        **dict.fromkeys(("array_job_id", "array_task_id", "het_job_id", "uid")),
        **{key: last.get(key) or None for key in ("user", "account", "name", "partition")},
        "accounting_problem": None,
        "slurm_state": str(last["state"]),
        "slurm_nodes": last.get("nodes") or None,
        "runs": [],
    }


def _nobody_knows(
    job_id: int, cluster: str | None, given: Sequence[Mapping[str, Any]], *, asked: bool
) -> str:
    """Which ways to a job are missing: the records here, and Slurm's own word."""
    where = f" of cluster {cluster}" if cluster else ""
    here = f"job {job_id} is not on record here: no run of a hook{where} names it"
    why = next((str(one["problem"]) for one in given if one.get("problem")), "it knows no such job")
    slurm = f"and Slurm tells nothing: {why}" if asked else "and Slurm was not asked"
    cure = "`sguard ingest DIR` takes in the nodes' spools, -M names another cluster"
    return f"{here}, {slurm}; {cure}"


def _run(store: Store, run: JobRun, told: Told) -> dict[str, Any]:
    expected = _expected(run, told)
    missing = missing_runs(run, told, expected)
    verdict = diagnose(run, told, missing, StoreFleet(store, run))
    first = run.first
    start, end = told.start or run.opened, told.end or run.closed
    refused_by = [share.node for share in run.shares if share.prolog is not None and share.prolog.refused]
    # What the epilog of a refused run tells is no exit code: the job never began.
    exit_code = told.exit or (run.exit_code if not refused_by else None)
    return {
        "restart": run.restart,
        "restart_sure": first.restart_sure,
        "state": told.state or None,
        "refused_by": refused_by,
        "requeued": told.followed,
        "exit_code": exit_code or None,
        "exit_from": "accounting" if told.exit else "epilog" if exit_code else None,
        "reason": told.reason or None,
        "submitted": iso(told.submit),
        "started": iso(start),
        "ended": iso(end),
        "elapsed_s": None if end is None else round((end - start) / 1000, 1),
        "nodes": expected or [share.node for share in run.shares],
        "unknown": _unknown(told, exit_code, refused=bool(refused_by)),
        "verdict": _verdict(verdict),
        "node_table": [_share(share, verdict) for share in run.shares],
        "others": _others(store, run, verdict),
        "actions": [one.as_dict() for one in events((a for s in run.shares for a in s.actions), run.job_id)],
        "coverage": _coverage(missing),
    }


def _expected(run: JobRun, told: Told) -> list[str]:
    """The nodes that Slurm gave the job, in its order; empty if no record says so readably."""
    from slurm_guard.slurm import hostlist

    said = next((share.allocation.nodes for share in run.shares if share.allocation.nodes), "") or told.nodes
    if not said:
        return []
    try:
        return list(dict.fromkeys(hostlist.expand(said, _MOST_EXPECTED)))
    except ValueError:
        return []


def _unknown(told: Told, exit_code: str | None, *, refused: bool) -> list[str]:
    """Which parts of the header nobody told, and why."""
    if not told.problem:
        return []
    lacking = "state, submit time" if exit_code else "state, exit code, submit time"
    if refused:
        lacking = "Slurm's own state, submit time"
    return [f"{lacking} ({told.problem})"]


def _verdict(verdict: Verdict) -> dict[str, Any]:
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
        **finding(one.finding),
    }


def finding(one: FindingRow) -> dict[str, Any]:
    """A finding as reports show it."""
    names = ("fault", "status", "device", "device_id", "message", "metric", "value", "unit", "reference")
    return {
        **{name: getattr(one, name) for name in names},
        "tier": one.tier,
        "scope": one.scope,
        "event": one.event,
    }


def _share(share: NodeShare, verdict: Verdict) -> dict[str, Any]:
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


def _others(store: Store, run: JobRun, verdict: Verdict) -> list[dict[str, Any]]:
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


def _coverage(missing: Sequence[Missing]) -> dict[str, Any]:
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
