"""A run's share in the return of a drained node: notes clean runs and relapses, and asks for the return."""

from __future__ import annotations

import time

from slurm_guard.engine import record, requests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.plan import Plan
    from slurm_guard.engine.faults import OpenFaults
    from slurm_guard.engine.run import Run


def note_run(this: Run, found: OpenFaults, counts: bool) -> None:
    """Take this run in; a relapse makes the node stay, and this run's record tells."""
    now = time.time()
    found.returning.note_run(not found.open, counts, now)
    if found.claim is None and not found.open:
        found.returning.stays = ""  # the drain that it was about was held, or is somebody else's by now
    back = found.returning.relapses(found.open, this.plan.returning["watch_s"], now)
    if back and this.requests and not found.returning.stays:
        found.returning.stay_after_relapse(back, now)
        this.stays = _held_return(
            found, {"fault": back[0].partition(" ")[0], "device": back[0].partition(" ")[2]}
        )


def _held_return(found: OpenFaults, cause: dict[str, Any]) -> dict[str, Any]:
    why = f"{found.returning.stays}: it stays until an admin resumes it"
    return record.action("resume", cause, "held", why)


def is_proven(found: OpenFaults, plan: Plan) -> bool:
    """K clean healthchecks, over at least T seconds."""
    enough = found.clean_runs >= plan.returning["clean_runs"]
    return enough and found.returning.is_clean_for(plan.returning["clean_s"], time.time())


def ask(this: Run, found: OpenFaults) -> None:
    """Leave a request for the return on disk, where resume is enforced; it only looks if the node stays."""
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
