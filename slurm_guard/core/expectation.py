"""Compare a value with what is expected: the only comparison code in the project.

References are `[value, lower, upper, unit]` with signed fractions, as in ReFrame: `[400, -0.05, None,
"Gb/s"]` accepts 380 and more.
"""

from __future__ import annotations

from slurm_guard.core.outcome import FAIL, PASS, SKIP, UNKNOWN, WARN, Facts, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Growth:
    """How much a counter grew since the sample before, and over how many seconds (never 0)."""

    __slots__ = ("delta", "seconds")

    def __init__(self, delta: float, seconds: float) -> None:
        self.delta = delta
        self.seconds = max(seconds, 1e-3)

    def per_second(self) -> float:
        """The rate of growth."""
        return self.delta / self.seconds


class Expectation:
    """The references and expected values of one node, the samples before, and the run's own circumstances.

    `run` has: hook, in_grace (bool), uptime_s, first_run (bool), job_gpus (list of the job's GPU tokens,
    empty without a job), own (the job's open allocation, or None), allocations (all open ones, own included:
    job_id, uid, gpus), hung_before (what hung in the run before).
    By `metric device`: `counters` collects every counter, for the next run; `values` every value that was
    judged and `growths` every counter that grew, for the record.
    """

    def __init__(
        self,
        references: dict[str, list[Any]] | None = None,
        expected: dict[str, Any] | None = None,
        *,
        before: dict[str, Any] | None = None,
        now: float = 0.0,
        run: Facts | None = None,
    ) -> None:
        self.references = references or {}
        self.expected = expected or {}
        self.run = run if run is not None else Facts(hook="healthcheck", in_grace=False, uptime_s=1e9)
        self.counters: dict[str, float] = {}
        self.values: dict[str, float] = {}
        self.growths: dict[str, float] = {}
        self._before = before or {}
        self._now = now

    def __call__(
        self,
        metric: str,
        value: Any,
        unit: str,
        *,
        device: str = "",
        fault: str = "",
        warn: float | None = None,
        fail: float | None = None,
        below: bool = False,
        **where: Any,
    ) -> Finding:
        """Judge one value against its reference, else against fixed limits, else `skip` with the value kept.

        `warn` and `fail` are limits that may not be exceeded (with `below=True`: not be fallen short of).
        `None` is "not supported" and skips; a text, NaN or infinity is `unknown`.
        """
        where.update(device=device, code=fault, metric=metric, unit=unit)
        if value is None:
            return Finding(SKIP, f"{metric}: not supported", **where)
        if not _is_number(value):
            return Finding(UNKNOWN, f"{metric}: {value!r} is not a number", **where)
        self.values[key(metric, device)] = value
        where["value"] = value
        reference = self.references.get(metric)
        if reference is not None:
            return _against_reference(metric, value, unit, reference, where)
        return _against_limits(metric, value, unit, warn, fail, below, where)

    def count(
        self, metric: str, found: int, expected: int | None, *, fault: str = "", **where: Any
    ) -> Finding:
        """Judge a count before anything else is: fewer than expected fails, more is a warning.

        `expected` None takes the node class's expected value; where there is none either, `skip`.
        """
        wanted = self.expected.get(metric) if expected is None else expected
        where.update(metric=metric, value=found, code=fault)
        self.values[key(metric, "")] = found
        if wanted is None or (wanted == 0 and found == 0):
            return Finding(SKIP, f"{metric}: {found}, none expected", **where)
        where["reference"] = [wanted, 0, 0]
        if found < wanted:
            return Finding(FAIL, f"{found} of {wanted} {metric} present", **where)
        if found > wanted:
            return Finding(WARN, f"{found} {metric} present, {wanted} expected", **where)
        return Finding(PASS, **where)

    def growth(self, metric: str, value: Any, device: str = "") -> Growth | None:
        """How a counter changed since the sample before (in the epilog: since this job's prolog).

        None where there is no earlier sample of this boot, the counter is not supported, or it fell (a
        reset). Counters are never judged by their absolute value.
        """
        if not _is_number(value):
            return None
        name = key(metric, device)
        self.counters[name] = value
        earlier = self._before.get(name)
        if not earlier or value < earlier[0]:
            return None
        grown = Growth(value - earlier[0], self._now - earlier[1])
        if grown.delta:
            self.growths[name] = grown.delta
        return grown


def key(metric: str, device: str) -> str:
    """The name of one sample: `metric` or `metric device`."""
    return f"{metric} {device}" if device else metric


def _is_number(value: Any) -> bool:
    """True for a finite number; a record could hold no other, since JSON has none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return value == value and abs(value) != float("inf")


def limits(reference: list[Any]) -> tuple[float | None, float | None]:
    """The lowest and highest accepted value of a reference `[value, lower, upper, unit]`."""
    wanted, lower, upper = reference[:3]
    low = None if lower is None else wanted + lower * abs(wanted)
    high = None if upper is None else wanted + upper * abs(wanted)
    return low, high


def _against_reference(
    metric: str, value: float, unit: str, reference: list[Any], where: dict[str, Any]
) -> Finding:
    low, high = limits(reference)
    where["reference"] = list(reference[:3])
    if len(reference) > 3 and reference[3] and unit and reference[3] != unit:
        message = f"{metric} is in {unit}, its reference in {reference[3]}: correct the unit in the config"
        return Finding(UNKNOWN, message, **where)
    if low is not None and value < low:
        return Finding(FAIL, f"{metric} {value:g} {unit}, expected at least {low:g} {unit}", **where)
    if high is not None and value > high:
        return Finding(FAIL, f"{metric} {value:g} {unit}, expected at most {high:g} {unit}", **where)
    return Finding(PASS, **where)


def _against_limits(
    metric: str,
    value: float,
    unit: str,
    warn: float | None,
    fail: float | None,
    below: bool,
    where: dict[str, Any],
) -> Finding:
    if warn is None and fail is None:
        return Finding(SKIP, f"{metric} {value:g} {unit}: no reference", **where)
    for status, limit in ((FAIL, fail), (WARN, warn)):
        if limit is None:
            continue
        if (value < limit) if below else (value > limit):
            where["reference"] = [limit, 0 if below else None, None if below else 0]
            word = "at least" if below else "at most"
            return Finding(status, f"{metric} {value:g} {unit}, expected {word} {limit:g} {unit}", **where)
    return Finding(PASS, **where)
