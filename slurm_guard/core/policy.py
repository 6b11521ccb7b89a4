"""From findings to decisions. Pure: no clock, no file, no Slurm; everything it weighs is handed in.

A finding's fault has a tier; tier, the site's rules, hook, device and history make the action.
"""

from __future__ import annotations

import time

from slurm_guard.core import rules
from slurm_guard.core.outcome import FAIL, TIMEOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from slurm_guard.core.outcome import Finding
    from slurm_guard.core.plan import Plan

    #: (fault, device)
    Key = tuple[str, str]

#: From mildest to gravest. NOTE: record. WARN: record and show. JOB: tell the user, never drain.
TIERS = ("NOTE", "WARN", "JOB", "DRAIN", "DRAIN_RESET", "DRAIN_REBOOT", "DRAIN_RMA")
DRAIN_TIERS = TIERS[3:]


class History:
    """What earlier runs of this node know of a fault, and what time it is.

    `seen`: {(fault, device): [0, 1, …]}, whether each earlier run saw it, newest last; `lasting`: for how
    many seconds it has been seen without a break; `began`: how many seconds ago it began anew, each time,
    this one included;
    `hung_before`: the devices that hung in the previous run of this boot; `sure`/`refuse`: the faults of the
    loaded checks that cannot be flukes, or for which a prolog may refuse; `relapsed`: {(fault, device)} that
    are back soon after the node was put back in service; `idle`: whether no job is on the
    node, None if that is not known; `minute`: of the day, in the node's own time zone.
    """

    def __init__(
        self,
        seen: dict[Key, list[int]] | None = None,
        hung_before: Iterable[str] = (),
        sure: Iterable[str] = (),
        refuse: Iterable[str] = (),
        *,
        relapsed: Iterable[Key] = (),
        lasting: dict[Key, float] | None = None,
        began: dict[Key, list[float]] | None = None,
        idle: bool | None = None,
        minute: int = 0,
    ) -> None:
        self.seen = seen or {}
        self.hung_before = frozenset(hung_before)
        self.sure = frozenset(sure)
        self.refuse = frozenset(refuse)
        self.relapsed = frozenset(relapsed)
        self.lasting = lasting or {}
        self.began = began or {}
        self.idle = idle
        self.minute = minute


class Decision:
    """What the policy wants done for one finding: `tell`, `drain` or `refuse`, in which mode, and why.

    `why` is a sentence for `sguard explain`: also for findings that call for a drain and do not get one.
    `rules` are the places (`FILE:LINE`) of the site's rules that had a say.
    """

    __slots__ = ("action", "device", "fault", "mode", "rules", "scope", "tier", "why")

    def __init__(self, action: str, finding: Finding, tier: str, mode: str, why: str) -> None:
        self.action = action
        self.fault = finding.fault
        self.device = finding.device or ""
        self.scope = finding.scope or "node"
        self.tier = tier
        self.mode = mode
        self.why = why
        self.rules: list[str] = []

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
    if finding.status not in (FAIL, TIMEOUT):
        return None
    how = rules.treatment(plan.rules, finding.fault, hook, history.idle)
    if how.action == "none":
        return None
    tier, repeated = _tier(finding, plan, how, history)
    why = _why_not(finding, plan, how, history, tier)
    if why:
        made = Decision("tell", finding, tier, "enforce", why)
    else:
        made = _act(finding, plan, hook, own, history, how, tier)
    made.why += repeated
    made.rules = [source for source in how.sources if source]
    return made


def _tier(finding: Finding, plan: Plan, how: rules.Treatment, history: History) -> tuple[str, str]:
    """The fault's tier here, and what is to be said of its repeats."""
    tier = how.tier or plan.tier(finding.fault, finding.tier or "WARN")
    repeated = ""
    if how.escalate:
        within = how.escalate["within_s"]
        ages = history.began.get((finding.fault, finding.device or ""), ())
        times = sum(age <= within for age in ages)
        if times >= how.escalate["after"]:
            tier, repeated = how.escalate["tier"], f"; began {times} times within {within / 3600:g} h"
    # A site's check, or a plan of another version, may say anything.
    return tier if tier in TIERS else "WARN", repeated


def _why_not(finding: Finding, plan: Plan, how: rules.Treatment, history: History, tier: str) -> str:
    """What stands between this finding and an action on the node; empty if nothing does."""
    if tier not in DRAIN_TIERS:
        return f"tier {tier}: never a drain"
    if how.action == "tell":
        return f"tier {tier}; a rule lets this fault only be told"
    key = finding.fault, finding.device or ""
    needed, of = runs_needed(finding, plan, how, history)
    seen = 1 + sum(history.seen.get(key, [])[-(of - 1) :] if of > 1 else [])
    if seen < needed:
        return f"seen in {seen} run{'' if seen == 1 else 's'}, {needed} of {of} are needed"
    if key not in history.relapsed and history.lasting.get(key, 0.0) < how.minimum_s:
        return f"seen for {history.lasting.get(key, 0.0):.0f} s, {how.minimum_s:g} s are needed"
    until = rules.quiet_until(how.quiet, history.minute)
    return f"tier {tier}; quiet hours until {until}" if until else ""


def runs_needed(finding: Finding, plan: Plan, how: rules.Treatment, history: History) -> tuple[int, int]:
    """M and N of "seen in M of N runs". An event is seen in one run only, so no rule can ask for more."""
    if (finding.fault, finding.device or "") in history.relapsed:
        return 1, 1
    if finding.status != TIMEOUT and finding.event:
        return 1, 1
    if how.runs is not None and how.of is not None:
        return how.runs, how.of
    if finding.status != TIMEOUT and finding.fault in history.sure:
        return 1, 1
    return plan.confirm["runs"], plan.confirm["of"]


def _act(
    finding: Finding,
    plan: Plan,
    hook: str,
    own: frozenset[str],
    history: History,
    how: rules.Treatment,
    tier: str,
) -> Decision:
    action, why = "drain", f"tier {tier}"
    if hook == "prolog":
        action, why = _in_prolog(finding, tier, own, history, how.action)
    mode = plan.mode(finding.check, action)
    to_drain = plan.mode(finding.check, "drain")
    if action == "refuse" and (mode == "off" or (mode == "observe" and to_drain == "enforce")):
        action, mode, why = "drain", to_drain, f"{why}; refuse is in {mode}"
    if mode == "off":
        return Decision("tell", finding, tier, mode, f"{why}; the mode of {action} is off")
    until = plan.held_back_until(finding.check, action) or plan.held_back_until(finding.check, "drain")
    if until and mode == "observe":
        day = time.strftime("%Y-%m-%d %H:%M", time.gmtime(until))
        why = f"{why}; {finding.check} is new to the plan: only observed until {day} UTC"
    return Decision(action, finding, tier, mode, why)


def _is_about_gpus(finding: Finding) -> bool:
    return finding.check == "nvml" or finding.check.startswith("gpu_")


def _in_prolog(
    finding: Finding, tier: str, own: frozenset[str], history: History, most: str | None
) -> tuple[str, str]:
    """Refuse only for listed faults on what this job was given; anything else drains and lets it run.

    `most` is what a rule allows: `refuse` puts a fault on the list, `drain` takes it off.
    """
    device = finding.device or ""
    if most == "drain":
        return "drain", f"tier {tier}; a rule lets this fault drain and refuse no job"
    if most != "refuse" and finding.fault not in history.refuse:
        return "drain", f"tier {tier}; this fault is not on the list of refusals"
    if finding.status == TIMEOUT and device not in history.hung_before:
        return "drain", f"tier {tier}; a first hang of this boot never refuses"
    if not own and _is_about_gpus(finding):
        return "drain", f"tier {tier}; this job was given no GPU"
    if finding.scope == "device" and not ({device, finding.device_id} & own):
        return "drain", f"tier {tier}; {device or 'the device'} was not given to this job"
    return "refuse", f"tier {tier}; the job was given {device or 'this node'}"
