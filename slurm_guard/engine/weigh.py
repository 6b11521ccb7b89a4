"""From a run's findings to what it wants done: the policy is asked with all that this node remembers."""

from __future__ import annotations

import time

from slurm_guard.core import check as registry
from slurm_guard.core import reason as reasons
from slurm_guard.core.outcome import FAIL, Finding
from slurm_guard.core.policy import Decision, History, decide
from slurm_guard.engine import faults, judge, requests, run_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.engine.run import Run


def weigh(this: Run) -> None:
    """Fill the run's decisions and requests; for a prolog that refuses, what it refuses for."""
    outcome, plan, hook = this.outcome, this.plan, this.context.hook
    findings = outcome.findings + still_open(this)
    this.decisions = decide(findings, plan, hook, outcome.given, _history(this, findings))
    if hook == "prolog":
        heed_waiting_requests(this)
    for decision in this.decisions:
        if decision.action in ("drain", "refuse") and decision.mode == "enforce":
            this.requests.append(_request(this, decision))
    first = this.decisions[0] if this.decisions else None
    if hook == "prolog" and first is not None and first.action == "refuse" and first.mode == "enforce":
        this.refusing, this.refused_at = this.requests[0], time.time()


def _history(this: Run, findings: list[Finding]) -> History:
    outcome, now = this.outcome, time.localtime()
    checks = [registry.CHECKS[name] for name in outcome.checks if name in registry.CHECKS]
    lasting, began = None, None
    if findings and this.plan.needs_sightings:
        from slurm_guard.engine import sightings

        # Events of earlier runs that are still open are on record already: they do not begin once more.
        found = sightings.with_run(
            this.places, outcome.findings, judge.judged(this.outcome.results), outcome.boot_id
        )
        lasting, began = found.ages(time.time())
    return History(
        seen=outcome.state.runs_seen(),
        hung_before=outcome.state.hung_before,
        sure=[f"{c.name}.{code}" for c in checks for code, fault in c.faults.items() if fault.sure],
        refuse=[f"{c.name}.{code}" for c in checks for code, fault in c.faults.items() if fault.refuse],
        relapsed=_relapsed(this, findings),
        lasting=lasting,
        began=began,
        idle=not outcome.others and this.context.hook == "healthcheck",
        minute=now.tm_hour * 60 + now.tm_min,
    )


def _relapsed(this: Run, findings: list[Finding]) -> list[tuple[str, str]]:
    """Faults that are back while the node's last return is being watched: no more proof is asked for."""
    names = [f"{one.fault} {one.device or ''}".strip() for one in findings]
    if not names:
        return []
    returning = faults.load(this.places).returning
    back = returning.relapses(names, this.plan.returning["watch_s"], time.time())
    return [(fault, device) for fault, _, device in (name.partition(" ") for name in back)]


def still_open(this: Run) -> list[Finding]:
    """Events of earlier runs that no reboot has proven gone and that the node was never drained for."""
    seen, enabled = run_once.seen_faults(this.outcome.results), this.plan.checks
    found = []
    for name, entry in faults.load(this.places).waiting_events(this.outcome.boot_id).items():
        # A check that was switched off since has no say any more.
        if name not in seen and (enabled is None or entry["check"] in enabled):
            code = entry["fault"].partition(".")[2]
            one = Finding(
                FAIL, f"open since {entry['first_seen']}", code=code, device=entry["device"], event=True
            )
            one.check, one.tier, one.scope = entry["check"], entry["tier"], entry.get("scope") or "device"
            found.append(one)
    return found


def heed_waiting_requests(this: Run) -> None:
    """A drain that waits on disk, its fault seen again, refuses: else the next job starts on the bad node."""
    waiting, given = requests.waiting(this.places, this.outcome.boot_id), this.outcome.given
    wanted = {(one["fault"], one["device"]) for one in waiting if one["kind"] == "drain"}
    this.waiting = wanted
    for decision in this.decisions:
        if decision.action == "tell":
            continue  # a rule or another tier has since made it no reason to act
        if decision.fault.startswith("gpu_") and decision.scope == "device" and decision.device not in given:
            continue  # another job's GPU, or a job without one
        if (decision.fault, decision.device) in wanted and decision.mode == "enforce":
            decision.action = "refuse"
            decision.why += "; its drain waits on disk"
    this.decisions.sort(key=lambda one: one.weight, reverse=True)


def _request(this: Run, decision: Decision) -> dict[str, Any]:
    jobs, users = on_the_node(this)
    jobs, users = faults.load(this.places).whose(decision.fault, decision.device, jobs, users)
    return requests.make(
        "drain",
        boot_id=this.outcome.boot_id,
        run_id=this.outcome.run_id,
        fault=decision.fault,
        device=decision.device,
        scope=decision.scope,
        tier=decision.tier,
        reason=reasons.build(decision.fault, decision.device),
        job_id=this.context.job_id if decision.action == "refuse" else None,
        by=this.context.hook,
        jobs=jobs,
        users=users,
    )


def on_the_node(this: Run) -> tuple[list[int], list[int]]:
    """Whose node a drain of now takes: the hook's own job's, in a healthcheck that of all. Root is nobody."""
    context, others = this.context, this.outcome.others
    if context.job_id is not None:
        return [context.job_id], [context.uid] if context.uid else []
    jobs = [one["job_id"] for one in others if isinstance(one.get("job_id"), int)]
    return jobs, sorted({one["uid"] for one in others if isinstance(one.get("uid"), int) and one["uid"]})
