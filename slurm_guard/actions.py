"""What a person asks for by hand: drain or resume a node through the ownership rules, with an audit record.

The node's own return to service after clean healthchecks is the engine's; this is the cold side.
"""

from __future__ import annotations

import difflib
import os
import pwd
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_guard.core import check as registry
from slurm_guard.core import reason as reasons
from slurm_guard.core.errors import OwnershipError, SlurmRefusedError
from slurm_guard.engine import clock, faults, record, spool
from slurm_guard.slurm import ownership, states

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from slurm_guard.core.paths import Places
    from slurm_guard.core.plan import Plan
    from slurm_guard.slurm.gateway import Gateway, NodeState
    from slurm_guard.slurm.ownership import Outcome

_FAULT = re.compile(r"[a-z][a-z0-9_]*(?:\.[A-Za-z0-9_]+)*")
_GPU = re.compile(r"gpu(\d{1,5})(?:/.*)?")
_NO_LOGIN = 4294967295
#: How the gateway, or Slurm, says that there is no such node.
_NO_SUCH_NODE = ("no node ", "invalid node name")


@dataclass(frozen=True)
class Wanted:
    """A drain that somebody wants. `fault` is empty where the reason is a person's own text."""

    reason: str
    fault: str = ""
    device: str = ""


@dataclass(frozen=True)
class Done:
    """How it ended. `unrecorded` says why there is no audit record; empty if there is one."""

    outcome: Outcome
    unrecorded: str = ""


def wanted(
    words: list[str], device: str, checks: Collection[str], expected: Mapping[str, Any] | None = None
) -> Wanted:
    """The drain that is meant by the words of a command line: a fault of a known check, or free text.

    `expected` is what the node's class expects. Raises ValueError: no word, a fault that no check has, a
    device without a fault or that the node does not have, a fault with words, a forged reason of ours.
    """
    text = reasons.clean(" ".join(words))
    if not text:
        raise ValueError("the reason is empty; expected a fault (gpu_xid.79) or a text")
    if text.upper().startswith((reasons.MARK, reasons.JOB_MARK)):
        raise ValueError(f"{text!r}: give the fault without its mark, e.g. `gpu_xid.79 --device gpu3`")
    fault, _, more = text.partition(" ")
    _ensure_known(fault, checks)
    if more and not device and _is_fault_and_device(fault, more, checks):
        raise ValueError(
            f"{text!r}: a fault's device is an option: `{fault} --device {more.split()[0]}`; "
            "a text of yours must not begin with a fault"
        )
    if _FAULT.fullmatch(text) and text.partition(".")[0] in checks:
        _ensure_there(text, device, expected or {})
        return Wanted(reasons.build(text, device), text, reasons.clean(device))
    if device:
        raise ValueError(f"{text!r} is no fault of a known check, so it has no device")
    if _FAULT.fullmatch(text) and re.search(r"[._]", text):
        raise ValueError(f"{text!r} looks like a fault, but no check has that name; `sguard check list`")
    return Wanted(text)


def _is_fault_and_device(fault: str, more: str, checks: Collection[str]) -> bool:
    """True for a fault with words behind it, and for the name of a check with a single one."""
    name, dot, _ = fault.partition(".")
    is_fault = _FAULT.fullmatch(fault) is not None and name in checks
    return is_fault and (bool(dot) or ("_" in name and " " not in more))


def _ensure_there(fault: str, device: str, expected: Mapping[str, Any]) -> None:
    """Raise ValueError for a device that a node of this class cannot have: a slip of the hand."""
    gpus, mounts = expected.get("gpus"), [str(one.get("path")) for one in expected.get("mounts") or ()]
    numbered = _GPU.fullmatch(device)
    if numbered and isinstance(gpus, int) and int(numbered[1]) >= gpus:
        there = f"gpu0 to gpu{gpus - 1}" if gpus else "no GPU"
        raise ValueError(f"--device {device}: the node's class has {there}")
    if device and fault.startswith("fs_") and not device.startswith("/"):
        raise ValueError(f"--device {device}: expected the path of a mount, e.g. /{device}")
    if device and fault.startswith("fs_mounts") and mounts and device not in mounts:
        raise ValueError(f"--device {device}: the node's class has no such mount; {', '.join(mounts)}")


def _ensure_known(word: str, checks: Collection[str]) -> None:
    """Raise ValueError for `check.code` where the check is known and has no such fault: a slip."""
    name, dot, code = word.partition(".")
    if not (dot and _FAULT.fullmatch(word) and name in checks):
        return
    check = registry.load(name)
    if code in check.faults or (check.open_faults and re.fullmatch(check.open_faults, code)):
        return
    near = difflib.get_close_matches(code, check.faults, n=1)
    hint = f"did you mean {name}.{near[0]}?" if near else f"`sguard check show {name}` lists them"
    if not near and check.open_faults:
        hint = f"expected {check.open_faults_text}"
    raise ValueError(f"{word!r}: {name} has no fault {code!r}; {hint}")


def drain(door: Gateway, places: Places, plan: Plan, node: str, order: Wanted) -> Done:
    """Drain a node unless it is somebody else's; at most two calls to Slurm.

    `plan` is this host's, `plan.node` its NodeName. The budget is not asked: a person decided. Never raises
    for what Slurm says; see `ensure`. A node that is drained already keeps its reason: that is `done` if it
    is the reason that was asked for, else `held`.
    """
    outcome = ownership.safe_drain(door, node, order.reason, plan.owners)
    if outcome.node is not None and outcome.node.drained and not outcome.written:
        _explain_standing(outcome, outcome.node, order.reason)
    if outcome.outcome == ownership.DONE and not outcome.written:
        return Done(outcome)  # nothing was done, so there is nothing to record
    request = {"fault": order.fault, "device": order.device, "reason": order.reason}
    return Done(outcome, _put_on_record(places, plan, node, "drain", request, outcome))


def resume(door: Gateway, places: Places, plan: Plan, node: str, written: str | None = None) -> Done:
    """End a drain of ours; `written` is the reason on record, so that an edit by a person is noticed."""
    return resumed(
        places, plan, node, ownership.safe_resume(door, node, plan.owners, written=written), written
    )


def resumed(places: Places, plan: Plan, node: str, outcome: Outcome, written: str | None = None) -> Done:
    """Put on record how a resume ended, whoever carried it out; a node that is back begins anew."""
    if outcome.outcome == ownership.HELD and _is_somebodys(outcome.node, plan, written):
        outcome.why += f"; if that is yours to end: `scontrol update nodename={node} state=resume`"
    reason = outcome.node.reason if outcome.node else ""
    parsed = reasons.parse(reason)
    fault, device = (parsed.fault, parsed.device) if parsed else ("", "")
    request = {"fault": fault, "device": device, "reason": reason}
    if outcome and node == plan.node:
        _forget_faults(places)
    if outcome and not outcome.written:
        return Done(outcome)
    return Done(outcome, _put_on_record(places, plan, node, "resume", request, outcome))


def _is_somebodys(node: NodeState | None, plan: Plan, written: str | None) -> bool:
    """True for a drain that is not the guard's own."""
    return node is not None and node.drained and not states.is_drained_by_us(node, plan.owners, written)


def _explain_standing(outcome: Outcome, node: NodeState, wanted_reason: str) -> None:
    """What it means that the node is drained already, and whose drain that is."""
    standing = reasons.strip_slurms_additions(node.reason)
    if outcome.outcome == ownership.FAILED:
        return
    who = node.reason_user or ("" if node.reason_uid is None else f"uid {node.reason_uid}") or "somebody"
    since = f" since {clock.iso(node.reason_time)}" if node.reason_time else ""
    what = repr(standing) if standing else "no reason"
    text = f"{node.name} is drained already, by {who}{since}, with {what}"
    if standing == wanted_reason:
        outcome.outcome, outcome.why = ownership.DONE, text
        return
    ours = " `sguard resume` ends that drain." if outcome.outcome == ownership.DONE else ""
    outcome.outcome, outcome.why = ownership.HELD, f"{text}; a reason that stands is never replaced.{ours}"


def ensure(outcome: Outcome) -> None:
    """Raise for what was not done: OwnershipError if it was held, Slurm's own error if it failed."""
    if outcome.error is not None:
        raise outcome.error
    if outcome.outcome != ownership.DONE:
        raise OwnershipError(f"nothing was written: {outcome.why}")


def in_words(node: str, outcome: Outcome) -> str:
    """How it ended, as a line for people."""
    said = outcome.why if outcome.why.startswith(node) else f"{node}: {outcome.why}"
    return said if outcome.written else f"nothing to do: {said}"


def _forget_faults(places: Places) -> None:
    """A person's word that a node is good closes its open events, which else only a reboot would."""

    def forget(found: faults.OpenFaults) -> None:
        found.end_claim()
        found.returning.forget()
        found.open = {}

    if os.path.exists(places.faults):  # noqa: PTH110 - places are plain paths
        with suppress(OSError):
            faults.change(places, forget)


def _put_on_record(
    places: Places, plan: Plan, node: str, kind: str, request: dict[str, Any], outcome: Outcome
) -> str:
    """Leave an action record in this host's spool; why it could not be, or an empty text.

    There is none of a node that Slurm does not know: a slip of the hand must not become a node on record.
    """
    answer = str(outcome.error or "")
    if isinstance(outcome.error, SlurmRefusedError) and any(text in answer.lower() for text in _NO_SUCH_NODE):
        return ""
    action = record.action(
        kind,
        request,
        outcome.outcome,
        outcome.why,
        answer=answer,
        calls=outcome.calls,
        written=outcome.written,
    )
    content = record.of_actions(places, plan, "cli", None, [action])
    content["user"] = person()
    if node != plan.node:
        # The record is about another machine than the one it was made on.
        content.update(node=node, machine={})
    try:
        spool.write(places, content, plan.spool)
    except OSError as error:
        return f"not on record: {places.spool}: {error.strerror or error}; only root may write there"
    return ""


def person() -> str:
    """Who is at the keyboard: the user that logged in, also behind sudo; else the user of this process."""
    uid = os.getuid()
    with suppress(OSError, ValueError):
        login = int(Path("/proc/self/loginuid").read_text(encoding="ascii"))
        uid = uid if login == _NO_LOGIN else login
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
