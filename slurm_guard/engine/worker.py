"""One run of a hook: check, decide, put on disk, act, tell.

What must be done is on disk before it is tried: kill -9 at any moment loses no result and no request.
"""

from __future__ import annotations

import os
import time

from slurm_guard.core import plan as plans
from slurm_guard.engine import child, disk, requests, run_once, syslog
from slurm_guard.engine.keep import STEPS_OF_THIS_BOOT, put_on_disk
from slurm_guard.engine.run import Run
from slurm_guard.engine.weigh import weigh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from slurm_guard.core.context import Context
    from slurm_guard.core.paths import Places

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
    weigh(this)
    written = disk.write(this.places, lambda: put_on_disk(this), DISK_S)
    if written != "done":
        this.log(f"not all of this run is on disk ({written}): {_summary(this)}", syslog.ERROR)
    if written.startswith("hung"):
        child.bounded(lambda: put_on_disk(this, STEPS_OF_THIS_BOOT), _BOOT_S)
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


def _work_waits(this: Run) -> bool:
    """True if a detached child has something to carry out."""
    if this.requests:
        return True
    return this.context.hook == "healthcheck" and bool(requests.waiting(this.places, this.outcome.boot_id))


def _summary(this: Run) -> str:
    seen = sorted(run_once.seen_faults(this.outcome.results))
    return f"status {this.outcome.status}; {', '.join(seen)[:400] or 'no fault'}"
