"""What the policy of one node makes of its faults: every fault in every hook, or one case with its reasons.

Both ask `core.policy.decide` itself, with a finding and a history made for the question.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from slurm_guard.core import check as registry
from slurm_guard.core import rules
from slurm_guard.core.context import HOOKS
from slurm_guard.core.outcome import FAIL, TIMEOUT, Finding
from slurm_guard.core.policy import DRAIN_TIERS, TIERS, History, decide, runs_needed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_guard.core.plan import Plan
    from slurm_guard.core.policy import Decision

_OWN = "gpu0"
#: A fault code of this name is a probe that did not answer, which is a `timeout` and no `fail`.
_HANG = "hung"


@dataclass(frozen=True)
class Case:
    """One question: this fault, on this device, in this hook, after this history.

    `seen` counts the runs that saw it, this one included; `lasting_s` is how long without a break; `began`
    how often it began lately; `given` whether the job was given the device; `minute` is that of the day.
    """

    fault: str
    device: str = _OWN
    hook: str = "epilog"
    seen: int = 1
    lasting_s: float = 0.0
    began: int = 1
    given: bool = True
    idle: bool = False
    minute: int = 12 * 60


@dataclass
class Treated:
    """What the policy makes of one fault: its tier, and in each hook the action (None: it is only recorded).

    `actions` maps `prolog`, `epilog`, `healthcheck` and `idle` (a healthcheck while no job is there) to
    (action, mode), `needs` maps them to what must be seen first; hooks that do not run the check are missing.
    """

    fault: str
    tier: str
    text: str
    actions: dict[str, tuple[str, str] | None] = field(default_factory=dict)
    needs: dict[str, str] = field(default_factory=dict)
    rules: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """One fault of `sguard policy show --json`."""
        hooks = {
            hook: {
                "action": one[0] if one else "record",
                "mode": one[1] if one else "",
                "needs": self.needs[hook],
            }
            for hook, one in self.actions.items()
        }
        found = {"fault": self.fault, "tier": self.tier, "hooks": hooks}
        return {**found, "rules": self.rules, "text": self.text}


def overview(plan: Plan) -> list[Treated]:
    """Every fault of every check that this node's plan enables, gravest tier first, then by name."""
    found = [
        _treated(plan, cls, code)
        for name in sorted(registry.names() if plan.checks is None else plan.checks)
        for cls in _loaded(name)
        for code in list(cls.faults) or [""]
    ]
    return sorted(found, key=lambda one: (-TIERS.index(one.tier), one.fault))


def _loaded(name: str) -> Iterator[type[registry.Check]]:
    try:
        yield registry.load(name)
    except Exception:  # noqa: BLE001 - a site's check may raise anything; `sguard doctor` names it
        return


def _treated(plan: Plan, cls: type[registry.Check], code: str) -> Treated:
    fault = f"{cls.name}.{code}" if code else cls.name
    finding = _finding(cls, code, _OWN)
    found = Treated(fault, plan.tier(fault, finding.tier or "WARN"), cls.fault(code).text)
    for place, hook, idle in (*((hook, hook, False) for hook in HOOKS), ("idle", "healthcheck", True)):
        if hook not in cls.hooks:
            continue
        case = Case(fault, hook=hook, seen=plan.longest_of, lasting_s=1e9, began=0, idle=idle)
        made = _decide(plan, case, finding)
        found.needs[place] = _needs(plan, case, finding)
        found.actions[place] = None if made is None else (made.action, made.mode)
        if made is not None:
            found.tier = made.tier
            found.rules += [rule for rule in made.rules if rule not in found.rules]
    return found


def _needs(plan: Plan, case: Case, finding: Finding) -> str:
    how = rules.treatment(plan.rules, case.fault, case.hook, case.idle)
    runs, of = runs_needed(finding, plan, how, _history(case, finding))
    seen = "once" if runs == 1 else f"{runs} of {of}"
    return f"{seen}, {how.minimum_s:g} s" if how.minimum_s else seen


def examine(plan: Plan, case: Case) -> dict[str, Any]:
    """One case, decided: `{"action", "mode", "tier", "why", "rules", …}`. Raises as `check.load` does.

    `action` is `record` where the policy makes no decision at all.
    """
    name, _, code = case.fault.partition(".")
    cls = registry.load(name)
    finding = _finding(cls, code, case.device)
    how = rules.treatment(plan.rules, case.fault, case.hook, case.idle)
    made = _decide(plan, case, finding)
    answer: dict[str, Any] = {
        "fault": case.fault,
        "device": case.device,
        "node": plan.node,
        "hook": case.hook,
        "action": made.action if made else "record",
        "mode": made.mode if made else "",
        "tier": made.tier if made else plan.tier(case.fault, finding.tier or "WARN"),
        "default_tier": finding.tier or "WARN",
        "why": made.why if made else "a rule says that this fault is only recorded",
        "rules": made.rules if made else how.sources,
        "needs": _needs(plan, case, finding),
        "event": bool(finding.event),
        "runs_in_hook": case.hook in cls.hooks and (plan.checks is None or name in plan.checks),
    }
    answer["will_act"] = bool(
        made and made.mode == "enforce" and made.action in ("drain", "refuse") and answer["runs_in_hook"]
    )
    answer["drains"] = answer["tier"] in DRAIN_TIERS
    return answer


def _decide(plan: Plan, case: Case, finding: Finding) -> Decision | None:
    given = [case.device] if case.given else []
    made = decide([finding], plan, case.hook, given, _history(case, finding))
    return made[0] if made else None


def _history(case: Case, finding: Finding) -> History:
    key = (finding.fault, finding.device or "")
    cls = registry.load(finding.check)
    return History(
        seen={key: [1] * (case.seen - 1)},
        hung_before=[case.device] if case.seen > 1 else [],
        sure=[f"{cls.name}.{code}" for code, fault in cls.faults.items() if fault.sure],
        refuse=[f"{cls.name}.{code}" for code, fault in cls.faults.items() if fault.refuse],
        lasting={key: case.lasting_s},
        began={key: [0.0] * case.began},
        idle=case.idle if case.hook == "healthcheck" else False,
        minute=case.minute,
    )


def _finding(cls: type[registry.Check], code: str, device: str) -> Finding:
    """A finding as the check would complete it."""
    found = Finding(TIMEOUT if code == _HANG else FAIL, "", code=code, device=device)
    return registry.complete(found, cls)
