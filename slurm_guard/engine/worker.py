"""One run of a hook: check, decide, put on disk, act, tell.

What must be done is on disk before it is tried: kill -9 at any moment loses no result and no request.
"""

from __future__ import annotations

import os
import time

from slurm_guard.core import check as registry
from slurm_guard.core import plan as plans
from slurm_guard.core import reason as reasons
from slurm_guard.core.outcome import FAIL, Finding
from slurm_guard.core.policy import Decision, History, decide
from slurm_guard.engine import (
    allocations,
    child,
    clock,
    disk,
    faults,
    inventory,
    node_state,
    record,
    requests,
    run_once,
    spool,
    syslog,
)
from slurm_guard.engine.run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from slurm_guard.core.context import Context
    from slurm_guard.core.paths import Places

    Steps = tuple[tuple[str, Callable[[Run], None]], ...]

#: How long the disk may take for state and record together before it counts as sick.
DISK_S = 2.0
#: What the run folder alone gets where that was not enough.
_BOOT_S = 0.5


def run(hook: str, places: Places, context: Context, tell: Callable[[dict[str, Any]], None]) -> None:
    """Do the run and tell the supervisor its verdict: `{"exit": 0|75, "message": …}`."""
    began = time.monotonic()
    node = context.node or os.uname().nodename.partition(".")[0]
    plan = plans.load(places.plan, node)
    tell({"deadline": plan.deadlines[hook], "chain": _chained(hook, places, plan)})
    outcome = run_once.run_checks(places, plan, context)
    this = Run(places, plan, context, outcome)
    this.ends = began + plan.deadlines[hook]
    _note_problems(this)
    _decide(this)
    written = disk.write(this.places, lambda: _put_on_disk(this), DISK_S)
    if written != "done":
        this.log(f"not all of this run is on disk ({written}): {_summary(this)}", syslog.ERROR)
    if written.startswith("hung"):
        child.bounded(lambda: _put_on_disk(this, _STEPS_OF_THIS_BOOT), _BOOT_S)
    verdict = {"exit": 0, "message": ""}
    if this.refusing is not None or (this.requests and hook == "epilog"):
        from slurm_guard.engine import settle

        verdict = settle.settle(this)
    elif _work_waits(this):
        from slurm_guard.engine import settle

        settle.later(this)
    tell(verdict)
    _ship(this)


def _chained(hook: str, places: Places, plan: plans.Plan) -> dict[str, Any]:
    """The site's own health program, which the supervisor runs after us."""
    if hook != "healthcheck" or not (plan.chain or "chain" in places.node):
        return {}
    from slurm_guard.engine import chain

    return chain.wanted(places, plan)


def _ship(this: Run) -> None:
    """Send records to the collector, where there is one, from a child that outlives the hook."""
    if not (this.plan.collector or this.places.node.get("collector")):
        return
    try:
        from slurm_guard.engine import shipping

        shipping.later(this)
    except Exception as error:  # the verdict was told and stands
        this.log(f"no records were sent: {type(error).__name__}: {error}", syslog.ERROR)


def _note_problems(this: Run) -> None:
    for problem in (this.places.node_problem, this.plan.problem):
        if problem:
            this.outcome.problems.append(problem)
    if this.plan.state in ("torn", "foreign", "stale"):
        this.log(this.plan.problem, syslog.ERROR)


def _decide(this: Run) -> None:
    outcome, plan, hook = this.outcome, this.plan, this.context.hook
    findings = outcome.findings + _still_open(this)
    this.decisions = decide(findings, plan, hook, outcome.given, _history(this, findings))
    if hook == "prolog":
        _heed_waiting_requests(this)
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

        found = sightings.with_run(this.places, findings, _judged(this), outcome.boot_id)
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


def _still_open(this: Run) -> list[Finding]:
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


def _heed_waiting_requests(this: Run) -> None:
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
    jobs, users = _on_the_node(this)
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


def _on_the_node(this: Run) -> tuple[list[int], list[int]]:
    """Whose node a drain of now takes: the hook's own job's, in a healthcheck that of all. Root is nobody."""
    context, others = this.context, this.outcome.others
    if context.job_id is not None:
        return [context.job_id], [context.uid] if context.uid else []
    jobs = [one["job_id"] for one in others if isinstance(one.get("job_id"), int)]
    return jobs, sorted({one["uid"] for one in others if isinstance(one.get("uid"), int) and one["uid"]})


def _put_on_disk(this: Run, steps: Steps | None = None) -> None:
    """In a child with a deadline: requests first, then state, then the record.

    What cannot be written keeps nothing of the rest from the disk: they need not be on the same one.
    """
    before = len(this.outcome.problems)
    for what, step in steps or _STEPS:
        _attempt(this, what, step)
    if len(this.outcome.problems) > before:
        raise OSError("; ".join(this.outcome.problems[before:]))


def _attempt(this: Run, what: str, step: Callable[[Run], None]) -> None:
    try:
        step(this)
    except Exception as error:
        this.outcome.problems.append(f"{what} not written: {type(error).__name__}: {error}"[:300])


def _put_request(this: Run) -> None:
    if this.requests:
        requests.put(this.places, this.requests[0])


def _put_record(this: Run) -> None:
    # One drain is enough for a node, so only the gravest is acted on; the decisions name them all.
    actions = [_planned(this, one) for one in this.decisions if one.action in ("drain", "refuse")][:1]
    if this.stays is not None:
        actions.append(this.stays)
    found = record.of_run(this.outcome, this.places, this.plan, this.context, this.decisions, actions)
    if this.refusing is not None:
        found["exit"] = None  # told by the action record that follows
    dropped = spool.write(this.places, found, this.plan.spool)
    if dropped:
        node_state.note_dropped(this.places, this.outcome.boot_id, dropped)
        this.log(f"the spool was full: {dropped} of the oldest records were given up; is it being ingested?")


def _planned(this: Run, decision: Decision) -> dict[str, Any]:
    outcome = "queued" if decision.mode == "enforce" else "observed"
    wanted: dict[str, Any] = {"fault": decision.fault, "device": decision.device}
    wanted["reason"] = reasons.build(decision.fault, decision.device)
    if decision.action == "refuse":
        wanted["job_id"] = this.context.job_id
    return record.action(decision.action, wanted, outcome, decision.why)


def _update_faults(this: Run) -> None:
    """Open and close faults; where all is clean for long enough, ask for the node's return."""
    outcome, plan = this.outcome, this.plan
    # A fresh boot's mounts and links may still be on their way: a node that is called clean now would be
    # put back before its storage is there.
    clean_check = this.context.hook == "healthcheck" and not outcome.expect.run.in_grace
    judged = _judged(this)
    tiers = {(one.fault, one.device): one.tier for one in this.decisions}

    def apply(found: faults.OpenFaults) -> None:
        complete = clean_check and (not found.claim or found.claim.get("check") in judged)
        found.update(outcome.findings, judged, tiers, outcome.boot_id, clock.iso(outcome.started), complete)
        found.returning.forget_devices(inventory.swapped(outcome.results))
        _note_returning(this, found, complete)
        if this.refusing is not None:
            found.note_refusal(this.refused_at)
        if this.requests and not found.drained:
            found.asked = faults.claim(this.requests[0])
        if clean_check and found.claim and not found.open and _is_proven(found, plan):
            _ask_for_return(this, found)

    if faults.change(this.places, apply) is None:
        raise OSError("the lock of the open faults could not be had")


def _note_returning(this: Run, found: faults.OpenFaults, counts: bool) -> None:
    now = time.time()
    found.returning.note_run(not found.open, counts, now)
    back = found.returning.relapses(found.open, this.plan.returning["watch_s"], now)
    if back and not found.returning.stays:
        found.returning.stay_after_relapse(back, now)
        this.stays = _held_return(
            found, {"fault": back[0].partition(" ")[0], "device": back[0].partition(" ")[2]}
        )


def _held_return(found: faults.OpenFaults, cause: dict[str, Any]) -> dict[str, Any]:
    why = f"{found.returning.stays}: it stays until an admin resumes it"
    return record.action("resume", cause, "held", why)


def _is_proven(found: faults.OpenFaults, plan: plans.Plan) -> bool:
    """K clean healthchecks, over at least T seconds."""
    enough = found.clean_runs >= plan.returning["clean_runs"]
    return enough and found.returning.is_clean_for(plan.returning["clean_s"], time.time())


def _judged(this: Run) -> set[str]:
    from slurm_guard.engine import judge

    return judge.judged(this.outcome.results)


def _ask_for_return(this: Run, found: faults.OpenFaults) -> None:
    drained = found.claim or {}
    mode = this.plan.mode(drained.get("check", ""), "resume")
    if mode != "enforce":
        return
    fields = {name: drained.get(name, "") for name in ("fault", "device", "reason")}
    rule, before = this.plan.returning, found.returning.stays
    found.returning.stay_if_it_flaps(rule["flaps"], rule["flap_window_s"], time.time())
    stays = bool(found.returning.stays)
    if stays and not before:
        this.stays = _held_return(found, fields)
    wanted = requests.make(
        "resume", boot_id=this.outcome.boot_id, run_id=this.outcome.run_id, stays=stays, **fields
    )
    requests.put(this.places, wanted)


def _update_state(this: Run) -> None:
    outcome, state = this.outcome, this.outcome.state
    state.kmsg_last = outcome.kmsg_last
    now = time.monotonic()
    state.counters = {name: [value, now] for name, value in outcome.expect.counters.items()}
    state.note_seen(run_once.seen_faults(outcome.results), _judged(this), this.plan.longest_of)
    if not node_state.save(this.places, state, outcome.reading.hangs):
        raise OSError("the lock of this boot's state could not be had")


def _update_sightings(this: Run) -> None:
    if this.plan.needs_sightings:
        from slurm_guard.engine import sightings

        gone = inventory.swapped(this.outcome.results)
        sightings.save(this.places, this.outcome.findings, _judged(this), this.outcome.boot_id, gone)


def _update_inventory(this: Run) -> None:
    if "inventory" in this.outcome.checks:
        nvml = this.outcome.reading.facts.get("nvml")
        inventory.save(this.places, nvml, clock.machine(this.places))


def _update_allocation(this: Run) -> None:
    context, outcome = this.context, this.outcome
    if context.job_id is None:
        return
    if context.hook == "epilog":
        allocations.close_file(this.places, context.job_id)
        return
    opened = allocations.opening(context, outcome.boot_id, clock.iso(outcome.started))
    opened["kmsg_last"] = outcome.kmsg_last
    opened["counters"] = outcome.state.counters
    allocations.open_file(this.places, opened)


#: Requests before all else: what must be done is on disk before it is tried.
_STEPS: Steps = (
    ("request", _put_request),
    ("faults", _update_faults),
    ("sightings", _update_sightings),
    ("state", _update_state),
    ("allocation", _update_allocation),
    ("inventory", _update_inventory),
    ("record", _put_record),
)
#: What lies in the run folder, mostly on another disk: a sick one must not leave this job's allocation open.
_STEPS_OF_THIS_BOOT: Steps = (("state", _update_state), ("allocation", _update_allocation))


def _work_waits(this: Run) -> bool:
    """True if a detached child has something to carry out."""
    if this.requests:
        return True
    return this.context.hook == "healthcheck" and bool(requests.waiting(this.places, this.outcome.boot_id))


def _summary(this: Run) -> str:
    seen = sorted(run_once.seen_faults(this.outcome.results))
    return f"status {this.outcome.status}; {', '.join(seen)[:400] or 'no fault'}"
