"""Whose node is it? What the guard may do to a node in a given state, and why. Pure functions.

Slurm has no compare-and-swap, and a drain overwrites whatever reason stands there; so the rule is to keep
hands off everything that is not plainly free or plainly our own.
"""

from __future__ import annotations

from slurm_guard.core import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from slurm_guard.slurm.gateway import NodeState

#: Base states in which a node that nobody drained may be drained.
WRITABLE = frozenset({"idle", "mixed", "allocated", "unknown"})
#: Base states in which our own drain may be ended. A drained node that was rebooted is DOWN+DRAIN and keeps
#: its reason: without `down`, no node would come back from the very reboot that repaired it.
RESUMABLE = frozenset({"idle", "mixed", "allocated", "down"})
#: slurmd's own words for a hook that ended with an error.
REFUSALS = frozenset({"Prolog error", "Epilog error"})
#: How near to our own recorded refusal such a reason must have been set to be ours, in seconds.
REFUSAL_WINDOW_S = 10
#: Who sets slurmd's own reasons: SlurmdUser or SlurmUser.
_SLURMS_USERS = ("root", "slurm")

_CLAIMED = {
    "FAIL": "is set to FAIL by an admin",
    "MAINTENANCE": "is in a maintenance reservation",
    "INVALID_REG": "registered with an invalid configuration",
}


class Answer(tuple[bool, str]):
    """`(ok, why)`: yes or no, and the sentence that says why. Is itself true or false, like `ok`."""

    __slots__ = ()

    def __new__(cls, ok: bool, why: str) -> Answer:  # noqa: D102 - the class's docstring says it
        return super().__new__(cls, (ok, why))

    def __bool__(self) -> bool:
        return self[0]

    @property
    def ok(self) -> bool:
        """The answer."""
        return self[0]

    @property
    def why(self) -> str:
        """The sentence behind it."""
        return self[1]


def may_drain(
    node: NodeState,
    owners: Iterable[str],
    written: str | None = None,
    refused_at: Iterable[float] | None = None,
) -> Answer:
    """May a drain with a reason of ours be written to this node?

    `owners` are user names (or numeric ids as text) whose drains are ours; `written` is the reason on record
    for this node; `refused_at` are the times (seconds since 1970) of our own recorded refusals on it.
    """
    claim = _claim(node, WRITABLE)
    if claim:
        return Answer(False, f"{node.name} {claim}: hands off")
    if not node.drained:
        return Answer(True, f"{node.name} is {node} and nobody drained it")
    return is_drained_by_us(node, owners, written, refused_at)


def may_resume(
    node: NodeState,
    owners: Iterable[str],
    written: str | None = None,
    refused_at: Iterable[float] | None = None,
) -> Answer:
    """May this node's drain be ended? Only if it is ours, unchanged, and nothing else holds the node."""
    if not node.drained:
        return Answer(False, f"{node.name} is {node}: not drained, nothing to resume")
    claim = _claim(node, RESUMABLE)
    if claim:
        return Answer(False, f"{node.name} {claim}: hands off")
    if "NOT_RESPONDING" in node.flags:
        return Answer(False, f"{node.name} does not answer slurmctld")
    return is_drained_by_us(node, owners, written, refused_at)


def is_drained_by_us(
    node: NodeState,
    owners: Iterable[str],
    written: str | None = None,
    refused_at: Iterable[float] | None = None,
) -> Answer:
    """Is the node drained with a reason of ours that nobody edited, set by one of the owners?"""
    if not node.drained:
        return Answer(False, f"{node.name} is {node}: not drained")
    text = node.reason
    if not text:
        return Answer(False, f"{node.name} is drained without a reason")
    if text in REFUSALS:
        return _own_refusal(node, owners, refused_at)
    if not reason.is_ours_unchanged(text, written):
        edited = f"; {written!r} is on record" if written and written != text else ""
        return Answer(False, f"{node.name} is drained with a reason that is not ours: {text[:80]!r}{edited}")
    if not _set_by(node, owners):
        return Answer(False, f"{node.name}'s reason was set by {_setter(node)}, who is not one of ours")
    return Answer(True, f"{node.name} is drained with our own reason, unchanged: {text!r}")


def counts_against_budget(node: NodeState) -> Answer:
    """Is this node out of service because of the guard, as far as its reason tells?

    Wider than ownership on purpose: an admin's edit of our reason, and every prolog or epilog error, still
    stands for a node that a hook took out.
    """
    if not node.drained and node.base != "down":
        return Answer(False, f"{node.name} is {node}: in service")
    bare = reason.strip_slurms_additions(node.reason)
    if bare in REFUSALS:
        return Answer(True, f"{node.name} was drained by a hook's error")
    if bare.startswith((reason.MARK, reason.JOB_MARK)):
        return Answer(True, f"{node.name} is out of service with {bare!r}")
    return Answer(False, f"{node.name} is out of service for somebody else's reason")


def _claim(node: NodeState, bases: frozenset[str]) -> str:
    """What forbids any write to this node, whoever drained it; empty if nothing does."""
    if node.unknown_flags:
        return f"has state words that this version does not know ({', '.join(sorted(node.unknown_flags))})"
    if not node.exact:
        return f"was read from a short state word that hides flags ({node.raw})"
    if node.base not in bases:
        return f"is {node.base.upper()}"
    for flag in sorted(node.flags):
        if flag in _CLAIMED:
            return _CLAIMED[flag]
        if flag.startswith("REBOOT"):
            return f"is about to reboot ({flag})"
        if flag.startswith("POWER"):
            return f"is under power saving ({flag})"
    return ""


def _own_refusal(node: NodeState, owners: Iterable[str], refused_at: Iterable[float] | None) -> Answer:
    what = f"{node.name} is drained with {node.reason!r}"
    if not _set_by(node, [*owners, *_SLURMS_USERS]):
        return Answer(False, f"{what}, set by {_setter(node)} and not by Slurm")
    times = list(refused_at or ())
    if node.reason_time is None or not times:
        return Answer(False, f"{what}, and no refusal of ours is on record")
    nearest = min(abs(node.reason_time - time) for time in times)
    if nearest > REFUSAL_WINDOW_S:
        return Answer(False, f"{what}, {nearest:.0f} s away from our own refusal: another hook's")
    return Answer(True, f"{what}, set within {REFUSAL_WINDOW_S} s of our own refusal")


def _set_by(node: NodeState, users: Iterable[str]) -> bool:
    known = set(users)
    if "root" in known:
        known.add("0")
    if node.reason_uid is not None and str(node.reason_uid) in known:
        return True
    return bool(node.reason_user) and node.reason_user in known


def _setter(node: NodeState) -> str:
    if node.reason_user:
        return node.reason_user
    return "an unknown user" if node.reason_uid is None else f"uid {node.reason_uid}"
