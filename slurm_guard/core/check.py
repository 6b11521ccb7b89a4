"""The one class that a health check derives from, and the registry that everything else reads.

A check is one file in `slurm_guard/checks/` (or a site's `checks.d`). `sguard check list`, the config's
schema, the policy's defaults, the docs page and the metric labels all derive from its class.
"""

from __future__ import annotations

import importlib
import os

from slurm_guard.core.outcome import FAIL, PASS, SKIP, TIMEOUT, UNKNOWN, WARN, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from slurm_guard.core.expectation import Expectation
    from slurm_guard.core.plan import Plan

CHECKS: dict[str, type[Check]] = {}


class Fault:
    """What one fault code of a check means: its default tier and how the policy treats it.

    `tier`: NOTE, WARN, JOB, DRAIN, DRAIN_RESET, DRAIN_REBOOT or DRAIN_RMA. `sure`: cannot be a fluke, acts
    on the first run. `refuse`: a prolog may refuse the job for it. `event`: happened once and stays open
    until a reset or reboot. `grace`: a fresh boot shows it for a while, so it is `unknown` in that time.
    """

    __slots__ = ("blame", "event", "grace", "refuse", "remedy", "scope", "sure", "text", "tier")

    def __init__(
        self,
        tier: str,
        text: str,
        *,
        remedy: str = "",
        sure: bool = False,
        refuse: bool = False,
        event: bool = False,
        grace: bool = False,
        scope: str = "",
        blame: str = "",
    ) -> None:
        self.tier = tier
        self.text = text
        self.remedy = remedy
        self.sure = sure
        self.refuse = refuse
        self.event = event
        self.grace = grace
        self.scope = scope
        self.blame = blame


class Check:
    """Judges the facts of one or more probes; a subclass registers itself by being defined.

    `probe` names the source of facts, or `probes` several of them: `judge` then gets them keyed by name.
    A parameter that is None in `params` is taken from the node class's expected values of the same name.
    `expects` names the expected value (or reference) without which a check has nothing to compare with.
    For the configuration: `metrics` are those that a class may give a reference for, with their units;
    `open_faults` matches fault codes beyond the table, `open_faults_text` says which; `rising` names pairs of
    parameters of which the second may not be less than the first.
    """

    name = ""
    probe = ""
    probes: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ("prolog", "epilog", "healthcheck")
    scope = "device"
    blame = "node"
    tier = "WARN"
    remedy = ""
    params: dict[str, Any] = {}
    expects = ""
    faults: dict[str, Fault] = {}
    metrics: dict[str, str] = {}
    open_faults = ""
    open_faults_text = ""
    rising: tuple[tuple[str, str], ...] = ()

    def __init_subclass__(cls) -> None:
        if not cls.name:
            raise TypeError(f"check class {cls.__name__} has no name")
        known = CHECKS.get(cls.name)
        if known is not None and known.__module__ != cls.__module__:
            raise TypeError(f"check {cls.name!r} is defined in {known.__module__} and in {cls.__module__}")
        CHECKS[cls.name] = cls

    @classmethod
    def sources(cls) -> tuple[str, ...]:
        """The probes whose facts this check needs."""
        return cls.probes or (cls.probe,)

    @classmethod
    def fault(cls, code: str) -> Fault:
        """The meaning of a fault code; an unlisted code has the check's own tier."""
        return cls.faults.get(code) or Fault(cls.tier, "")

    def judge(self, facts: Any, params: Any, expect: Expectation) -> Iterable[Finding]:
        """Yield findings; never do I/O here. An exception becomes one finding `unknown`."""
        raise NotImplementedError

    def judge_hang(self, hang: Any) -> Iterable[Finding]:
        """Yield findings for a probe that hung as a whole. `hang` has probe, confirmed, still, channel."""
        yield unknown(f"{hang.probe} did not answer in time")

    def findings(self, facts: Any, params: Any, expect: Expectation) -> Iterator[Finding]:
        """`judge`, with each finding completed from the class: blame, scope, tier, remedy."""
        for found in self.judge(facts, params, expect):
            yield complete(found, type(self))


def complete(found: Finding, check: type[Check]) -> Finding:
    """Fill a finding's blame, scope, tier, remedy and event mark from its check's fault table."""
    fault = check.fault(found.code)
    found.check = check.name
    found.tier = found.tier or fault.tier
    found.blame = found.blame or fault.blame or check.blame
    found.scope = found.scope or fault.scope or check.scope
    if found.status not in (PASS, SKIP):
        found.remedy = found.remedy or fault.remedy or check.remedy
        found.event = fault.event if found.event is None else found.event
    return found


def passed(message: str = "", **where: Any) -> Finding:
    """Judged, and as it should be."""
    return Finding(PASS, message, **where)


def failed(message: str, **where: Any) -> Finding:
    """Judged, and broken."""
    return Finding(FAIL, message, **where)


def warned(message: str, **where: Any) -> Finding:
    """Judged, and worth a look, but no reason to take the node out of service."""
    return Finding(WARN, message, **where)


def unknown(message: str, **where: Any) -> Finding:
    """Could not be judged: the query failed, the answer is garbage, or the view is constrained."""
    return Finding(UNKNOWN, message, **where)


def timed_out(message: str, **where: Any) -> Finding:
    """Hung, proven by a child that outlived SIGKILL or by two runs in a row."""
    return Finding(TIMEOUT, message, **where)


def skipped(message: str = "", **where: Any) -> Finding:
    """Does not apply here: not supported, or nothing expected and nothing there."""
    return Finding(SKIP, message, **where)


def names() -> list[str]:
    """The names of all built-in checks, sorted; nothing is imported."""
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "checks")
    files = (entry for entry in os.listdir(folder) if entry.endswith(".py"))
    return sorted(entry[:-3] for entry in files if not entry.startswith("_"))


def lacks_expectation(check: type[Check], plan: Plan) -> bool:
    """True if a check compares with a value that a node's plan does not name: it finds little there."""
    set_here = (plan.checks or {}).get(check.name) or {}
    wanted = set_here.get(check.expects), plan.expected.get(check.expects), plan.references.get(check.expects)
    return bool(check.expects) and wanted == (None, None, None)


def load(name: str) -> type[Check]:
    """The class of a check, imported on demand.

    Raises whatever importing the module raises: the runner turns that into `unknown` for this check alone.
    """
    if name not in CHECKS:
        importlib.import_module(f"slurm_guard.checks.{name}")
    return CHECKS[name]
