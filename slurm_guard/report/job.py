"""The report on a job: `build` makes the JSON object of docs/job-report.md, `text` a page of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slurm_guard import __version__
from slurm_guard.core.errors import NotFoundError
from slurm_guard.diagnosis import Told, diagnose, missing_runs, not_on_record, told_by
from slurm_guard.report import incidents
from slurm_guard.report.actions import events
from slurm_guard.report.fleet import StoreFleet
from slurm_guard.report.job_parts import coverage_of, others_of, share_of, verdict_of
from slurm_guard.report.job_text import text
from slurm_guard.report.layout import iso
from slurm_guard.store import jobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurm_guard.store import Store
    from slurm_guard.store.model import JobRun

__all__ = ["SCHEMA", "build", "text"]

SCHEMA = "1.0"
_MOST_EXPECTED = 20_000


def build(
    store: Store,
    job_id: int,
    accounting: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    cluster: str | None = None,
    uid: int | None = None,
) -> dict[str, Any]:
    """The report on all runs of a job, oldest first; with a `uid`, on that user's alone.

    `accounting` is what Slurm told (see `diagnosis.accounting.told_by`) and may be missing. Raises
    NotFoundError if neither the store nor accounting knows the job, StoreError if the store fails.
    """
    runs = jobs.job_runs(store, job_id, cluster, uid)
    told = told_by(accounting, runs)
    if not runs:
        return _without_runs(job_id, accounting, cluster)
    waits = not_on_record(accounting, runs)
    later = [None] * (len(runs) - 1) + [waits]
    built = [_run(store, *one) for one in zip(runs, told, later, strict=True)]
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


def _run(store: Store, run: JobRun, told: Told, later: Told | None) -> dict[str, Any]:
    expected = _expected(run, told)
    missing = missing_runs(run, told, expected)
    verdict = diagnose(run, told, missing, StoreFleet(store, run), later)
    first = run.first
    start, end = told.start or run.opened, told.end or run.closed
    refused_by = [share.node for share in run.shares if share.prolog is not None and share.prolog.refused]
    # What Slurm and the epilog tell of a refused run is no exit code: the job never began.
    exit_code = None if refused_by else told.exit or run.exit_code
    return {
        "restart": run.restart,
        "restart_sure": first.restart_sure,
        "state": told.state or None,
        "refused_by": refused_by,
        "requeued": told.followed,
        "exit_code": exit_code or None,
        "exit_from": None if not exit_code else "accounting" if told.exit else "epilog",
        "reason": told.reason or None,
        "submitted": iso(told.submit),
        "started": iso(start),
        "ended": iso(end),
        "elapsed_s": None if end is None else round((end - start) / 1000, 1),
        "nodes": expected or [share.node for share in run.shares],
        "unknown": _unknown(told, exit_code, refused=bool(refused_by)),
        "verdict": verdict_of(verdict),
        "node_table": [share_of(share, verdict) for share in run.shares],
        "others": others_of(store, run, verdict),
        "incidents": _incidents(store, run),
        "actions": [one.as_dict() for one in events((a for s in run.shares for a in s.actions), run.job_id)],
        "coverage": coverage_of(missing),
    }


def _incidents(store: Store, run: JobRun) -> list[dict[str, Any]]:
    """The incidents that the job met: on its nodes, seen while it ran."""
    nodes = [share.node for share in run.shares]
    end = round(time.time() * 1000) if run.closed is None else run.closed + jobs.AFTER_MS
    return incidents.named(store, nodes, run.cluster, run.opened, end, seen=True)


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
