"""What Slurm's state last said of a drain on this node, for some seconds.

A node that fails while sixty jobs start on it asks once, not sixty times: runs take turns at a lock of the
node, and all but the first find the answer here.
"""

from __future__ import annotations

import contextlib
import time

from slurm_guard.engine import act, files, turn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from slurm_guard.core.paths import Places
    from slurm_guard.core.plan import Plan
    from slurm_guard.engine.act import Outcome
    from slurm_guard.slurm.gateway import Gateway

#: How long an answer is taken for still true, in seconds. `held` is asked again by every healthcheck.
FRESH_S = {"done": 10.0, "held": 30.0}
#: So long another run of this node may rightly wait for its turn and ask.
_LONGEST_TURN_S = turn.MOST_SLOTS * turn.SLOT_S + 0.2
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
    began, end = time.time(), time.monotonic() + seconds
    with files.locked(places.lock("slurm"), patience_s=seconds) as mine:
        known = _recall(places, request, began)
        if known is not None:
            return known
        if not mine and seconds > _LONGEST_TURN_S:
            return act.Outcome("failed", "Slurm does not answer another run of this node", 0)
        left = end - time.monotonic()
        if not mine or left < _LEAST_S:  # too soon to call Slurm silent: the budget must not be passed by
            return act.Outcome("held", act.NO_TURN, 0)
        done = act.drain(door, plan, request, left, refusals)
        if done.why != act.NO_TURN:
            _remember(places, request, done)
        return done


def _recall(places: Places, request: dict[str, object], began: float) -> Outcome | None:
    """What another run was told; that Slurm failed, only if it did so while this one waited."""
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
    fresh = time.time() - began if what == "failed" else FRESH_S.get(what, 0)
    if not 0 <= age < fresh:
        return None
    found = act.Outcome(what, why, 0)
    found.out, found.recalled, found.age_s = bool(known.get("out")), True, age
    found.limit = str(known.get("limit") or "")
    return found


def _remember(places: Places, request: dict[str, object], done: Outcome) -> None:
    content = {"reason": request["reason"], "boot_id": request["boot_id"], "at": time.time()}
    with contextlib.suppress(OSError):  # then the next run asks by itself
        content.update(what=done.what, why=done.why, out=done.out, limit=done.limit)
        files.write_json(places.answer, content)


def forget(places: Places) -> None:
    """The node's state changed by our own hand: ask anew."""
    with contextlib.suppress(OSError):
        files.remove(places.answer)
