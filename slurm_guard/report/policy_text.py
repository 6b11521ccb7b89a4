"""The policy of a node as text of a given width: `sguard policy show` and `sguard policy test`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from slurm_guard.core.context import HOOKS
from slurm_guard.core.policy import DRAIN_TIERS
from slurm_guard.report.layout import wrap

if TYPE_CHECKING:
    from slurm_guard.core.plan import Plan
    from slurm_guard.report.policy import Treated


def overview_text(plan: Plan, faults: list[Treated], width: int) -> str:
    """Faults of equal treatment together, a line for each check; then what the marks mean, and the rules."""
    lines: list[str] = []
    for treatment, checks in _alike(faults).items():
        lines += wrap(treatment, width, rest="      ")
        for check, codes in checks.items():
            lines += wrap(_codes(check, codes), width, "    ", "      ")
    if any("(" in treatment for treatment in _alike(faults)):
        lines += ["", *wrap("(in brackets): the mode is observe, so it is recorded and not done", width)]
    for check, until in sorted(plan.new_checks.items()):
        day = time.strftime("%Y-%m-%d %H:%M", time.gmtime(until))
        text = f"{check} is new to the plan: its drains and refusals are only observed until {day} UTC; "
        lines += wrap(f"{text}`sguard config apply --approve-new` ends that", width)
    lines += ["", "rules, in order:"] if plan.rules else []
    for rule in plan.rules:
        lines += wrap(rule_line(rule), width, "  ", "      ")
    return "\n".join(lines)


def _alike(faults: list[Treated]) -> dict[str, dict[str, list[str]]]:
    """Treatment in words → check → the codes that have it."""
    found: dict[str, dict[str, list[str]]] = {}
    for one in faults:
        check, _, code = one.fault.partition(".")
        found.setdefault(_treatment(one), {}).setdefault(check, []).append(code)
    return found


def _treatment(one: Treated) -> str:
    """`DRAIN_RESET: refuse in prolog, drain in epilog and healthcheck; when seen in 2 of 3 runs`."""
    acting = {
        one.needs[hook] for hook, done in one.actions.items() if done and done[0] in ("drain", "refuse")
    }
    hooks: dict[str, list[str]] = {}
    for hook in HOOKS:
        if hook in one.actions:
            needs = f" {needs_text(one.needs[hook])}" if len(acting) > 1 else ""
            hooks.setdefault(_word(one, hook) + needs, []).append(hook)
    parts = [f"{word} in {' and '.join(names)}" for word, names in hooks.items()]
    does = ", ".join(hooks) if len(hooks) == 1 else ", ".join(parts)
    return f"{one.tier}: {does}" + (f"; {needs_text(acting.pop())}" if len(acting) == 1 else "")


def needs_text(needs: str) -> str:
    """What must be seen before anything is done."""
    runs, _, seconds = needs.partition(", ")
    seen = "at once" if runs == "once" else f"when seen in {runs} runs"
    return f"{seen}, for {seconds} without a break" if seconds else seen


def _codes(check: str, codes: list[str]) -> str:
    """`gpu_xid: 48 79 95`, or the check alone where it has no codes."""
    return check if codes == [""] else f"{check}: {' '.join(sorted(codes, key=_in_order))}"


def _in_order(code: str) -> tuple[bool, int, str]:
    """Xids as numbers, before words."""
    return not code.isdigit(), int(code) if code.isdigit() else 0, code


def _word(one: Treated, hook: str) -> str:
    if hook not in one.actions:
        return "-"
    word = _action(one.actions[hook])
    idle = _action(one.actions["idle"]) if hook == "healthcheck" else word
    return word if idle == word else f"{word} with a job, {idle} when idle,"


def _action(done: tuple[str, str] | None) -> str:
    if done is None:
        return "record"
    action, mode = done
    if mode == "off":
        return mode
    return f"({action})" if action in ("drain", "refuse") and mode == "observe" else action


def rule_line(rule: dict[str, Any]) -> str:
    """One rule in a sentence."""
    conditions = []
    if "hooks" in rule:
        conditions.append(f"in {', '.join(rule['hooks'])}")
    if "node" in rule:
        conditions.append("on an idle node" if rule["node"] == "idle" else "while a job is on the node")
    effects = []
    if "tier" in rule:
        effects.append(f"tier {rule['tier']}")
    if "action" in rule:
        effects.append(
            {"none": "recorded only", "tell": "told only"}.get(rule["action"], f"at most {rule['action']}")
        )
    if "runs" in rule:
        effects.append(f"seen in {rule['runs']} of {rule.get('of', rule['runs'])} runs")
    if "minimum_s" in rule:
        effects.append(f"for {rule['minimum_s']:g} s")
    if "escalate" in rule:
        one = rule["escalate"]
        effects.append(f"{one['tier']} when begun {one['after']} times within {one['within_s'] / 3600:g} h")
    if "quiet" in rule:
        effects.append(f"waits {', '.join(rule['quiet'])}" if rule["quiet"] else "at any hour")
    where = f" {' '.join(conditions)}" if conditions else ""
    return f"{rule.get('source', 'rule')}: {rule['fault']}{where}: {'; '.join(effects)}"


def case_text(answer: dict[str, Any], width: int) -> str:
    """One case, the decision first."""
    where = f"{answer['fault']} {answer['device']} on {answer['node']}, {answer['hook']}"
    lines = wrap(f"{where}: {_verdict(answer)}", width)
    tier = answer["tier"]
    if tier != answer["default_tier"]:
        tier = f"{tier} (built in: {answer['default_tier']})"
    rows = [("tier", tier), ("why", answer["why"]), ("acts", _seen(answer))]
    rows.append(("rules", ", ".join(answer["rules"]) or "none fits"))
    for name, text in rows:
        lines += wrap(text, width, f"  {name:<6} ")
    return "\n".join(lines)


def _seen(answer: dict[str, Any]) -> str:
    if answer["tier"] not in DRAIN_TIERS:
        return "never on the node"
    return needs_text(answer["needs"])


def _verdict(answer: dict[str, Any]) -> str:
    action, mode = answer["action"], answer["mode"]
    if not answer["runs_in_hook"]:
        return "nothing: this check does not run there"
    if action in ("drain", "refuse"):
        words = {"enforce": f"{action} the {'node' if action == 'drain' else 'job'}, if the budget has room"}
        if action == "refuse":
            words["enforce"] = "drain the node and refuse the job, if the budget has room"
        return words.get(mode, f"would {action}, but the mode is {mode}")
    return {"tell": "told, nothing is done to the node"}.get(action, "recorded, nothing else")
