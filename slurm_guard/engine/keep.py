"""What a run leaves on disk: what is to be done first, then what the node remembers, then the record."""

from __future__ import annotations

import time

from slurm_guard.core import reason as reasons
from slurm_guard.engine import (
    allocations,
    clock,
    coming_back,
    faults,
    inventory,
    judge,
    node_state,
    record,
    requests,
    run_once,
    spool,
)
from slurm_guard.engine.weigh import on_the_node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from slurm_guard.core.policy import Decision
    from slurm_guard.engine.run import Run

    Steps = tuple[tuple[str, Callable[[Run], None]], ...]


def put_on_disk(this: Run, steps: Steps | None = None) -> None:
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
    judged = judge.judged(this.outcome.results)
    tiers = {(one.fault, one.device): one.tier for one in this.decisions}

    def apply(found: faults.OpenFaults) -> None:
        complete = clean_check and (not found.claim or found.claim.get("check") in judged)
        found.update(outcome.findings, judged, tiers, outcome.boot_id, clock.iso(outcome.started), complete)
        found.note_whose(*on_the_node(this))
        found.returning.forget_devices(inventory.swapped(outcome.results))
        coming_back.note_run(this, found, complete)
        if this.refusing is not None:
            found.note_refusal(this.refused_at)
        if this.requests and not found.drained:
            found.asked = faults.claim(this.requests[0])
        if clean_check and found.claim and not found.open and coming_back.is_proven(found, plan):
            coming_back.ask(this, found)

    if faults.change(this.places, apply) is None:
        raise OSError("the lock of the open faults could not be had")


def _update_state(this: Run) -> None:
    outcome, state = this.outcome, this.outcome.state
    state.kmsg_last = outcome.kmsg_last
    now = time.monotonic()
    state.counters = {name: [value, now] for name, value in outcome.expect.counters.items()}
    state.note_seen(
        run_once.seen_faults(outcome.results), judge.judged(this.outcome.results), this.plan.longest_of
    )
    if not node_state.save(this.places, state, outcome.reading.hangs):
        raise OSError("the lock of this boot's state could not be had")


def _update_sightings(this: Run) -> None:
    if this.plan.needs_sightings:
        from slurm_guard.engine import sightings

        gone = inventory.swapped(this.outcome.results)
        sightings.save(
            this.places, this.outcome.findings, judge.judged(this.outcome.results), this.outcome.boot_id, gone
        )


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
STEPS_OF_THIS_BOOT: Steps = (("state", _update_state), ("allocation", _update_allocation))
