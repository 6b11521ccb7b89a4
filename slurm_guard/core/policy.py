"""From findings to decisions. Pure: no clock, no file, no Slurm; everything it weighs is handed in.

A finding's fault has a tier; the tier, the hook, the device and the history make the action.
"""

from __future__ import annotations

from slurm_guard.core.outcome import FAIL, TIMEOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from slurm_guard.core.outcome import Finding
    from slurm_guard.core.plan import Plan

#: From mildest to gravest. NOTE: record. WARN: record and show. JOB: tell the user, never drain.
TIERS = ("NOTE", "WARN", "JOB", "DRAIN", "DRAIN_RESET", "DRAIN_REBOOT", "DRAIN_RMA")
DRAIN_TIERS = TIERS[3:]


class History:
    """What earlier runs of this node know of a fault.

    `seen`: {(fault, device): runs among the last `of` in which it was seen, this one not counted};
    `hung_before`: the devices that hung in the previous run of this boot; `sure`/`refuse`: the faults of
    the loaded checks that cannot be flukes, or for which a prolog may refuse.
    """

    def __init__(
        self,
        seen: dict[tuple[str, str], int] | None = None,
        hung_before: Iterable[str] = (),
        sure: Iterable[str] = (),
        refuse: Iterable[str] = (),
    ) -> None:
        self.seen = seen or {}
        self.hung_before = frozenset(hung_before)
        self.sure = frozenset(sure)
        self.refuse = frozenset(refuse)


class Decision:
    """What the policy wants done for one finding: `tell`, `drain` or `refuse`, in which mode, and why.

    `why` is a sentence for `sguard explain`: also for findings that call for a drain and do not get one.
    """

    __slots__ = ("action", "device", "fault", "mode", "scope", "tier", "why")

    def __init__(self, action: str, finding: Finding, tier: str, mode: str, why: str) -> None:
        self.action = action
        self.fault = finding.fault
        self.device = finding.device or ""
        self.scope = finding.scope or "node"
        self.tier = tier
        self.mode = mode
        self.why = why

    def as_dict(self) -> dict[str, Any]:
        """The decision as it stands in a run record."""
        return {name: getattr(self, name) for name in self.__slots__ if getattr(self, name)}

    @property
    def weight(self) -> tuple[bool, int, bool]:
        """Orders decisions: enforced before observed, then by tier, then a refusal before a drain."""
        return self.mode == "enforce", TIERS.index(self.tier), self.action == "refuse"


def decide(
    findings: Iterable[Finding], plan: Plan, hook: str, given: Iterable[str], history: History
) -> list[Decision]:
    """The decisions of one run, gravest first.

    `given` names the devices that this job was given (`gpu3` and UUIDs alike); scope `node` and `shared`
    concern every job. Only `fail` and `timeout` findings of a drain tier call for an action.
    """
    own = frozenset(given)
    made = (_decide_one(finding, plan, hook, own, history) for finding in findings)
    return sorted((one for one in made if one is not None), key=lambda one: one.weight, reverse=True)


def _decide_one(
    finding: Finding, plan: Plan, hook: str, own: frozenset[str], history: History
) -> Decision | None:
    tier = plan.tier(finding.fault, finding.tier or "WARN")
    tier = tier if tier in TIERS else "WARN"  # a site's check, or a plan of another version, may say anything
    if finding.status not in (FAIL, TIMEOUT):
        return None
    if tier not in DRAIN_TIERS:
        return Decision("tell", finding, tier, "enforce", f"tier {tier}: never a drain")
    needed = _runs_needed(finding, plan, history)
    seen = 1 + history.seen.get((finding.fault, finding.device or ""), 0)
    if seen < needed:
        why = f"seen in {seen} run(s), {needed} of {plan.confirm['of']} are needed"
        return Decision("tell", finding, tier, "enforce", why)
    action, why = ("drain", f"tier {tier}") if hook != "prolog" else _in_prolog(finding, tier, own, history)
    mode = plan.mode(finding.check, action)
    if action == "refuse" and mode != "enforce" and plan.mode(finding.check, "drain") == "enforce":
        action, mode, why = "drain", "enforce", f"{why}; refuse is in {mode}"
    return Decision(action, finding, tier, mode, why)


def _runs_needed(finding: Finding, plan: Plan, history: History) -> int:
    if finding.status != TIMEOUT and (finding.event or finding.fault in history.sure):
        return 1
    return plan.confirm["runs"]


def _is_about_gpus(finding: Finding) -> bool:
    return finding.check == "nvml" or finding.check.startswith("gpu_")


def _in_prolog(finding: Finding, tier: str, own: frozenset[str], history: History) -> tuple[str, str]:
    """Refuse only for listed faults on what this job was given; anything else drains and lets it run."""
    device = finding.device or ""
    if finding.fault not in history.refuse:
        return "drain", f"tier {tier}; this fault is not on the list of refusals"
    if finding.status == TIMEOUT and device not in history.hung_before:
        return "drain", f"tier {tier}; a first hang of this boot never refuses"
    if not own and _is_about_gpus(finding):
        return "drain", f"tier {tier}; this job was given no GPU"
    if finding.scope == "device" and not ({device, finding.device_id} & own):
        return "drain", f"tier {tier}; {device or 'the device'} was not given to this job"
    return "refuse", f"tier {tier}; the job was given {device or 'this node'}"
