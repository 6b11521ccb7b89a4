"""What Slurm's state last said of a drain on this node, for some seconds.

A node that fails while sixty jobs start on it asks once, not sixty times: runs take turns at a lock of the
node, and all but the first find the answer here.
"""

from __future__ import annotations

import contextlib
import time

from slurm_guard.engine import act, files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from slurm_guard.core.paths import Places
    from slurm_guard.core.plan import Plan
    from slurm_guard.engine.act import Outcome
    from slurm_guard.slurm.gateway import Gateway

#: How long an answer is taken for still true, in seconds. `held` is asked again by every healthcheck.
FRESH_S = {"done": 10.0, "held": 30.0}
#: In less time than this nothing is asked.
_LEAST_S = 0.2


def drain(
    places: Places,
    door: Gateway,
    plan: Plan,
    request: dict[str, object],
    seconds: float,
    refusals: list[float],
) -> Outcome:
    """`act.drain`, once per node and cause within some seconds; `seconds` is for all of it."""
    end = time.monotonic() + seconds
    with files.locked(places.lock("slurm"), patience_s=seconds) as mine:
        known = _recall(places, request)
        if known is not None:
            return known
        left = end - time.monotonic()
        if (
            not mine or left < _LEAST_S
        ):  # a run of this node has asked for longer than that: Slurm is as good as silent
            return act.Outcome("failed", "Slurm does not answer another run of this node", 0, "", True)
        done = act.drain(door, plan, request, left, refusals)
        if done.what in FRESH_S and done.why != act.NO_TURN:
            _remember(places, request, done)
        return done


def _recall(places: Places, request: dict[str, object]) -> Outcome | None:
    known = files.read_json(places.answer)
    if (
        known is None
        or known.get("reason") != request["reason"]
        or known.get("boot_id") != request["boot_id"]
    ):
        return None
    try:
        what, why, age = str(known["what"]), str(known["why"]), time.time() - known["at"]
    except (LookupError, TypeError):  # not written by this version
        return None
    if not 0 <= age < FRESH_S.get(what, 0):
        return None
    found = act.Outcome(what, why, 0)
    found.out, found.recalled, found.age_s = bool(known.get("out")), True, age
    return found


def _remember(places: Places, request: dict[str, object], done: Outcome) -> None:
    content = {"reason": request["reason"], "boot_id": request["boot_id"], "at": time.time()}
    with contextlib.suppress(OSError):  # then the next run asks by itself
        files.write_json(places.answer, {**content, "what": done.what, "why": done.why, "out": done.out})


def forget(places: Places) -> None:
    """The node's state changed by our own hand: ask anew."""
    with contextlib.suppress(OSError):
        files.remove(places.answer)
