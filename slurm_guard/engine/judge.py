"""From facts to results: every enabled check judges, and a check that breaks is `unknown`, nothing more."""

from __future__ import annotations

from itertools import islice

from slurm_guard.core import check as registry
from slurm_guard.core.outcome import FAIL, SKIP, STATUSES, TIMEOUT, UNKNOWN, CheckResult, Facts, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.check import Check
    from slurm_guard.core.expectation import Expectation
    from slurm_guard.core.plan import Plan
    from slurm_guard.engine.reading import Hang, Reading

#: Of one check in one run: a check that finds something new for ever must not fill memory and disk.
MOST_FINDINGS = 500


def enabled(plan: Plan, hook: str, only: list[str] | None = None) -> tuple[list[Check], list[CheckResult]]:
    """The checks that this hook runs, and a result `unknown` for each that cannot be loaded."""
    wanted = only if only is not None else list(plan.checks if plan.checks is not None else registry.names())
    checks, broken = [], []
    for name in wanted:
        try:
            loaded = registry.load(name)
            made = loaded() if only is not None or hook in loaded.hooks else None
        except Exception as error:  # a truncated module, half an upgrade: our own trouble, never the node's
            broken.append(_unknown(name, f"the check could not be loaded: {type(error).__name__}: {error}"))
            continue
        if made is not None:
            checks.append(made)
    return checks, broken


def judge_all(checks: list[Check], reading: Reading, plan: Plan, expect: Expectation) -> list[CheckResult]:
    """The result of every check, in order."""
    return [_judge(check, reading, plan, expect) for check in checks]


def _judge(check: Check, reading: Reading, plan: Plan, expect: Expectation) -> CheckResult:
    try:
        found = islice(_findings(check, reading, plan, expect), MOST_FINDINGS + 1)
        findings = [_complete(one, check, expect) for one in found]
    except Exception as error:  # law 1: a bug in a check is `unknown`
        return _unknown(check.name, f"the check broke: {type(error).__name__}: {error}")
    if len(findings) > MOST_FINDINGS:
        text = f"more than {MOST_FINDINGS} findings: the rest was left out"
        findings[MOST_FINDINGS:] = _unknown(check.name, text).findings
    return CheckResult(check.name, findings)


def _findings(check: Check, reading: Reading, plan: Plan, expect: Expectation) -> Any:
    sources = check.sources()
    hang = next((one for one in reading.hangs if one.probe in sources and not one.key), None)
    if hang is not None and len(sources) == 1:  # the others still have something to judge
        return check.judge_hang(_once_more(hang, expect))
    problems = {name: reading.problems[name] for name in sources if name in reading.problems}
    if problems and len(problems) == len(sources):
        return [Finding(UNKNOWN, f"{name}: {text}") for name, text in problems.items()]
    if len(sources) == 1:
        facts = reading.facts[sources[0]]
    else:
        facts = Facts({name: reading.facts.get(name) for name in sources}, problems=Facts(problems))
    return check.judge(facts, parameters(check, plan), expect)


def _once_more(hang: Hang, expect: Expectation) -> Facts:
    """A hang in two runs in a row is confirmed, whatever became of the child."""
    again = hang.still or hang.probe in (expect.run.get("hung_before") or ())
    return Facts(probe=hang.probe, confirmed=hang.confirmed or again, still=again, channel=hang.channel)


def parameters(check: Check, plan: Plan) -> Facts:
    """A check's parameters: its defaults, the plan's, and for None the class's expected value."""
    found = Facts(check.params)
    found.update((plan.checks or {}).get(check.name) or {})
    for name, value in found.items():
        if value is None:
            found[name] = plan.expected.get(name)
    return found


def _complete(found: Any, check: Check, expect: Expectation) -> Finding:
    if not isinstance(found, Finding) or found.status not in STATUSES:
        raise TypeError(f"{found!r} is no finding with one of the statuses {', '.join(STATUSES)}"[:300])
    finding = registry.complete(found, type(check))
    fault = type(check).fault(finding.code)
    if fault.grace and expect.run.in_grace and finding.status in (FAIL, TIMEOUT):
        finding.status = UNKNOWN
        finding.message += f" ({expect.run.uptime_s:.0f} s after boot: not judged yet)"
    return finding


def _unknown(name: str, message: str) -> CheckResult:
    finding = Finding(UNKNOWN, message, scope="node", blame="unknown", tier="NOTE")
    finding.check = name
    return CheckResult(name, [finding])


def judged(results: list[CheckResult]) -> set[str]:
    """The checks that could judge all they look at: nothing unknown, nothing hung, not all of it left out.

    A check that no longer applies (a driver that answers N/A now) proves no earlier fault gone.
    """
    seen = [one for one in results if one.status != SKIP]
    return {one.check for one in seen if all(f.status not in (UNKNOWN, TIMEOUT) for f in one.findings)}


def all_findings(results: list[CheckResult]) -> list[Finding]:
    """Every finding that is not `skip`, in order."""
    return [f for one in results for f in one.findings if f.status != SKIP]
