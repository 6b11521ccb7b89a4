"""After the run is on disk: refuse, drain, resume and tell, at once where the hook must wait for it, else
from a detached child. Imported on the failing path only.
"""

from __future__ import annotations

import os
import random
import time

from slurm_guard.core import reason as reasons
from slurm_guard.engine import (
    act,
    answers,
    child,
    disk,
    faults,
    files,
    record,
    requests,
    shipping,
    spool,
    syslog,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.engine.act import Outcome
    from slurm_guard.engine.run import Run
    from slurm_guard.slurm.gateway import Gateway

#: Detached children of many nodes do not start together.
JITTER_S = 2.0
_TRUE, _OVER, _WAITS = "true", "over", "waits"
_DISK_S = 1.0
#: With less, Slurm could not even be asked: then the supervisor's slack is used.
_LEAST_S = 0.5


def settle(this: Run) -> dict[str, Any]:
    """Prolog with a refusal, epilog with a drain: act before returning; the verdict for the supervisor."""
    request = this.requests[0]
    door = act.gateway(this.plan, this.context.slurm_conf)
    done = answers.drain(this.places, door, this.plan, request, _seconds(this), _refusals(this))
    refuse = this.refusing is not None and _refuses(done, request, this)
    actions = [done.as_action("drain", request)]
    if refuse:
        actions.append(record.action("refuse", request, "done", done.why))
        this.requests.append(_word_to_user(this, request))
    elif this.refusing is not None:
        actions.append(record.action("refuse", request, "held", done.why))
    code = 75 if refuse else 0
    written = disk.write(this.places, lambda: _after(this, request, done, actions, code), _DISK_S)
    if written != "done":
        this.log(f"the action was not recorded ({written}): {request['reason']}: {done.what}", syslog.ERROR)
    this.log(f"{request['reason']}: drain {done}")
    later(this)
    return {"exit": code, "message": _message(this, request) if refuse else ""}


def _seconds(this: Run) -> float:
    """For Slurm: what law 5 allows, and no more than the hook has left when the disk had its share."""
    return max(_LEAST_S, min(act.WINDOW_S[this.context.hook], this.ends - time.monotonic() - _DISK_S))


def _refuses(done: Outcome, request: dict[str, Any], this: Run) -> bool:
    """Refuse when the node is out of service, or an admin's: `held` by the budget lets the job run.

    Where Slurm gave no answer the budget cannot be read, and a refusal is a drain: the job is let through,
    and the drain waits on disk. Only one that waited before this job came, and is this node's own, refuses.
    """
    if done.what == "done":
        return True
    if done.what == "held":
        return done.out
    return request["scope"] != "shared" and (request["fault"], request["device"]) in this.waiting


def _refusals(this: Run) -> list[float]:
    """When we refused jobs on this node: a `Prolog error` right after such a time is ours."""
    return faults.load(this.places).refusals


def _message(this: Run, request: dict[str, Any]) -> str:
    job, node = this.context.job_id, this.plan.node
    return f"slurm_guard refuses job {job} on {node}: {request['reason']} (see: sguard job {job})"


def _word_to_user(this: Run, request: dict[str, Any]) -> dict[str, Any]:
    """What the job's admin comment will say."""
    job, node = this.context.job_id, this.plan.node
    text = f"slurm_guard: {node} was refused for this job: {request['reason']}. "
    # No semicolon: Slurm's own parsers break on it, and it is dropped.
    text += f"Not your fault. Ask your admins: sguard job {job}"
    wanted = requests.make(
        "tell",
        boot_id=this.outcome.boot_id,
        run_id=this.outcome.run_id,
        job_id=this.context.job_id,
        text=text,
    )
    wanted.update(fault=request["fault"], device=request["device"])
    return wanted


def _after(this: Run, request: dict[str, Any], done: Outcome, actions: list[Any], code: int) -> None:
    for wanted in this.requests[1:]:
        if wanted["kind"] == "tell":
            requests.put(this.places, wanted)
    _settle_request(this, request, done)
    if this.refusing is not None and code == 0:
        faults.change(this.places, lambda found: found.take_back_refusal(this.refused_at))
    found = record.of_actions(this.places, this.plan, this.context.hook, this.outcome.run_id, actions)
    if this.context.hook == "prolog":
        found["exit"] = code
    spool.write(this.places, found, this.plan.spool)


def _settle_request(this: Run, request: dict[str, Any], done: Outcome) -> None:
    """A request that was carried out, or that the rules forbid, no longer waits."""
    if done.what == "done" and not done.recalled:
        note_drained(this, request, done)
    elif done.what == "held" and done.why != act.NO_TURN:
        faults.change(this.places, lambda found: setattr(found, "asked", None))
    if done.what != "failed" and done.why != act.NO_TURN:
        requests.drop(this.places, request)


def note_drained(this: Run, request: dict[str, Any], done: Outcome) -> None:
    """Remember what we wrote to Slurm, so that only that is ever taken back."""
    standing = "" if done.written else reasons.strip_slurms_additions(done.reason or "")
    known = reasons.parse(standing)  # an earlier reason of ours stands there: it is never rewritten
    wanted = faults.claim(
        request if known is None else {**request, "fault": known.fault, "device": known.device}
    )
    if known is not None:
        wanted["reason"] = standing

    def apply(found: faults.OpenFaults) -> None:
        for entry in found.open.values():
            entry["acted"] = True
        found.asked = None
        wanted["with"] = sorted(found.open)
        if not found.drained or found.drained.get("reason") != wanted["reason"]:
            found.clean_runs, found.drained = 0, wanted

    faults.change(this.places, apply)


def later(this: Run) -> None:
    """Carry out what waits on disk from a process that outlives the hook."""

    def work() -> None:
        try:
            _carry_out(this)
        except Exception as error:  # a detached child has nobody to tell but the log
            this.log(f"what waits was not carried out: {type(error).__name__}: {error}", syslog.ERROR)
        shipping.quietly(this)  # the records of what was done

    try:
        child.detach(work)
    except OSError as error:
        this.log(f"what waits is left to the next run: {type(error).__name__}: {error}", syslog.ERROR)


def _carry_out(this: Run) -> None:
    try:
        lock = files.try_lock(this.places.lock("carry"))
        if lock is None:
            return
    except OSError:
        lock = -1  # where there can be no lock file, nobody else holds it
    try:
        _carry_out_alone(this)
    finally:
        if lock >= 0:
            os.close(lock)


def _carry_out_alone(this: Run) -> None:
    if this.context.hook == "healthcheck":
        time.sleep(random.uniform(0, JITTER_S))  # noqa: S311  # spreads load; nothing secret
        shipping.hand_over(this)
    door = act.gateway(this.plan, this.context.slurm_conf)
    for request in requests.waiting(this.places, this.outcome.boot_id):
        if any(os.path.exists(switch) for switch in this.places.kill_switches):
            return  # thrown since the hook began
        standing = _standing(this, request)
        if standing == _OVER:
            requests.drop(this.places, request)
        if standing != _TRUE:
            continue
        try:
            actions = _one(this, door, request)
            found = record.of_actions(this.places, this.plan, this.context.hook, request["run_id"], actions)
            spool.write(this.places, found, this.plan.spool)
        except Exception as error:  # the next run carries on
            this.log(f"request {request.get('kind')}: {type(error).__name__}: {error}", syslog.ERROR)
    if this.context.hook != "healthcheck" and this.requests:
        _look_again(this, door, this.requests[0])


def _standing(this: Run, request: dict[str, Any]) -> str:
    """What became of a request's cause: still true, over, or not seen by this run, and then it waits.

    The modes are asked anew: a site that went back to observing since is obeyed.
    """
    check, found = request.get("fault", "").partition(".")[0], faults.load(this.places)
    if request["kind"] == "resume":
        ours = found.claim is not None and found.claim.get("reason") == request["reason"]
        return _TRUE if ours and not found.open and this.plan.mode(check, "resume") == "enforce" else _OVER
    if request["kind"] != "drain":
        return _TRUE
    cause = (request.get("fault", ""), request.get("device", ""))
    enforced = any(this.plan.mode(check, action) == "enforce" for action in ("drain", "refuse"))
    if not enforced or " ".join(cause).strip() not in found.open:
        return _OVER
    acting = [one for one in this.decisions if one.action != "tell" and one.mode == "enforce"]
    return _TRUE if cause in [(one.fault, one.device) for one in acting] else _WAITS


def _one(this: Run, door: Gateway, request: dict[str, Any]) -> list[Any]:
    if request["kind"] == "tell":
        done = act.tell(door, request)
        if done.what != "failed":
            requests.drop(this.places, request)
        return [done.as_action("tell", request)]
    if request["kind"] == "resume":
        return (
            [_return(this, door, request)]
            if not request.get("stays")
            else _look_who_resumed(this, door, request)
        )
    done = answers.drain(this.places, door, this.plan, request, act.WINDOW_S["healthcheck"], _refusals(this))
    _settle_request(this, request, done)
    this.log(f"{request['reason']}: drain {done}")
    actions = [done.as_action("drain", request)]
    if done.written:
        actions += _look_again(this, door, request)
    return actions


def _return(this: Run, door: Gateway, request: dict[str, Any]) -> dict[str, Any]:
    answers.forget(this.places)
    done = act.resume(door, this.plan, request, faults.load(this.places).refusals)
    requests.drop(this.places, request)  # while it stays true, the next clean run asks again
    if done.what == "done" or _is_somebody_else_s(done, request):
        faults.change(this.places, lambda found: _note_returned(found, request, done.written))
    this.log(f"{request['reason']}: resume {done}", syslog.NOTICE)
    return done.as_action("resume", request)


def _note_returned(found: faults.OpenFaults, request: dict[str, Any], by_us: bool) -> None:
    if by_us:
        name = f"{request.get('fault', '')} {request.get('device', '')}".strip()
        with_it = (found.claim or {}).get("with") or []
        found.returning.note_return([name, *with_it], time.time())
    found.end_claim()


def _look_who_resumed(this: Run, door: Gateway, request: dict[str, Any]) -> list[Any]:
    """A node that stays is not resumed by us; once an admin has done so, it begins anew."""
    requests.drop(this.places, request)
    answers.forget(this.places)
    if act.is_drained(door, this.plan) is False:
        faults.change(this.places, _begin_anew)
        this.log(f"{request['reason']}: put back in service by somebody else", syslog.NOTICE)
    return []


def _begin_anew(found: faults.OpenFaults) -> None:
    found.end_claim()
    found.returning.forget()


def _is_somebody_else_s(done: Outcome, request: dict[str, Any]) -> bool:
    """An edited or replaced reason ends our claim for good; a node that is down for a moment does not."""
    return done.reason is not None and reasons.strip_slurms_additions(done.reason) != request["reason"]


def _look_again(this: Run, door: Gateway, request: dict[str, Any]) -> list[Any]:
    """Where several nodes share a turn, look once more whether the budget was passed."""
    from slurm_guard.engine import turn

    if len(this.plan.all_nodes) <= turn.MOST_SLOTS:
        return []
    time.sleep(turn.SLOT_S * 2)
    answers.forget(this.places)
    undone = act.withdraw_excess(door, this.plan, request)
    if undone is None:
        return []
    if undone.what == "withdrawn":
        faults.change(this.places, lambda found: found.end_claim())
    this.log(f"{request['reason']}: withdrawal {undone}")
    return [undone.as_action("resume", request)]
