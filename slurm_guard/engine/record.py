"""The run record (version 1.0), the document that goes from a node to the store: see docs/record.md."""

from __future__ import annotations

import os
import zlib

from slurm_guard import __version__
from slurm_guard.core.outcome import PASS, SKIP
from slurm_guard.engine import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.context import Context
    from slurm_guard.core.paths import Places
    from slurm_guard.core.plan import Plan
    from slurm_guard.core.policy import Decision
    from slurm_guard.engine.run_once import RunOutcome

SCHEMA = "1.0"


def head(kind: str, run_id: str, places: Places, plan: Plan, context: Context | None) -> dict[str, Any]:
    """The fields that every record begins with: what it is, which run, node, machine and versions."""
    return {
        "schema": SCHEMA,
        "kind": kind,
        "run_id": run_id,
        "cluster": (context.cluster if context else "") or plan.cluster,
        "node": plan.node,
        "machine": clock.machine(places),
        "guard_version": __version__,
        "plan": {"hash": plan.hash, "state": plan.state, "problem": plan.problem},
        "drill": bool(places.node.get("drill")),
    }


def of_run(
    outcome: RunOutcome,
    places: Places,
    plan: Plan,
    context: Context,
    decisions: list[Decision],
    actions: list[Any],
) -> dict[str, Any]:
    """The record of one run of a hook."""
    detailed = context.hook != "healthcheck"
    record = head("run", outcome.run_id, places, plan, context)
    record.update(
        hook=context.hook,
        allocation=_allocation(outcome, context),
        others=[{k: one.get(k) for k in ("job_id", "uid", "user", "gpus")} for one in outcome.others],
        check_set=_check_set(outcome.checks),
        mode="enforce" if any(mode[2] == "enforce" for mode in plan.modes) else "observe",
        started=clock.iso(outcome.started),
        elapsed_ms=round(outcome.elapsed_ms, 1),
        uptime_s=round(outcome.uptime_s, 1),
        status=outcome.status,
        passed=[one.check for one in outcome.results if one.status == PASS],
        skipped=[one.check for one in outcome.results if one.status == SKIP],
        results=[one.as_dict() for one in outcome.results if one.status not in (PASS, SKIP)],
        coverage=_coverage(outcome, context),
        values=outcome.expect.values if detailed else {},
        growths=outcome.expect.growths,
        decisions=[one.as_dict() for one in decisions],
        actions=actions,
        dropped=outcome.state.dropped,
        exit=0,
    )
    return record


def of_actions(places: Places, plan: Plan, by: str, parent: str | None, actions: list[Any]) -> dict[str, Any]:
    """The record of what was done after a run: by a detached child or by a person."""
    record = head("action", os.urandom(16).hex(), places, plan, None)
    record.update(parent=parent, started=clock.iso(), by=by, actions=actions)
    return record


def action(
    kind: str,
    request: dict[str, Any],
    outcome: str,
    why: str = "",
    *,
    answer: str = "",
    calls: int = 0,
    written: bool | None = None,
) -> dict[str, Any]:
    """One action in a record: what, for which fault, how it ended and why.

    `outcome`: done, failed, held (the rules said no), observed (mode observe), queued, withdrawn. `written`:
    whether a `done` changed the node, or found it as it should be; None for what writes to no node, and where
    nobody can tell (Slurm may have taken a write that it did not answer).
    """
    found = {
        "action": kind,
        "fault": request.get("fault", ""),
        "device": request.get("device", ""),
        "reason": request.get("reason", ""),
        "job_id": request.get("job_id"),
        "outcome": outcome,
        "why": why,
        "answer": answer[:500],
        "at": clock.iso(),
        "calls": calls,
        "written": written if outcome in ("done", "withdrawn") else None,
    }
    return {name: value for name, value in found.items() if value not in (None, "")}


def _allocation(outcome: RunOutcome, context: Context) -> dict[str, Any] | None:
    """The job: as its prolog wrote it down, which an epilog's own environment does not change."""
    allocation = context.as_dict()
    if allocation is None:
        return None
    if outcome.allocation is not None and context.hook == "epilog":
        for name in ("restart", "start_time", "opened_at"):
            if outcome.allocation.get(name) is not None:
                allocation[name] = outcome.allocation[name]
    elif context.hook == "prolog":
        allocation["opened_at"] = clock.iso(outcome.started)
    return allocation


def _coverage(outcome: RunOutcome, context: Context) -> dict[str, str]:
    """What this run could not see, by source; empty when it saw all."""
    gaps = {**outcome.reading.partial, **outcome.reading.problems}
    gaps.update({hang.key or hang.probe: "hung" for hang in outcome.reading.hangs})
    kmsg = outcome.reading.facts.get("kmsg")
    if isinstance(kmsg, dict) and (kmsg.get("gap") or kmsg.get("overflow")):
        gaps["kmsg"] = "kernel lines were lost"
    if context.hook == "epilog" and outcome.allocation is None:
        gaps["prolog"] = "no prolog of this job on record here"
    if context.gpus_problem:
        gaps["job_gpus"] = context.gpus_problem
    gaps.update({f"engine{i or ''}": text for i, text in enumerate(outcome.problems)})
    return gaps


def _check_set(names: list[str]) -> str:
    return f"{zlib.crc32(' '.join(sorted(names)).encode()):08x}"
