"""One run as Nagios and its relatives want it: a line, performance data, and an exit code of their own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from slurm_guard.core.outcome import FAIL, PASS, SKIP, TIMEOUT, UNKNOWN, WARN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slurm_guard.core.outcome import Finding

STATES = {
    PASS: (0, "OK"),
    SKIP: (0, "OK"),
    WARN: (1, "WARNING"),
    FAIL: (2, "CRITICAL"),
    TIMEOUT: (2, "CRITICAL"),
    UNKNOWN: (3, "UNKNOWN"),
}
#: NRPE's oldest packets hold 1,024 bytes; whole labels only, up to this many characters of data.
_MOST_TEXT, _MOST_DATA = 400, 500
_UNSAFE_TEXT = re.compile(r"[|\x00-\x1f\x7f]+")
_UNSAFE_LABEL = re.compile(r"[|'=\x00-\x1f\x7f]+")


def line(
    status: str, findings: Sequence[Finding], passed: int, values: Mapping[str, float]
) -> tuple[int, str]:
    """Exit code and line: `SGUARD CRITICAL - <worst finding>, 2 more | 'gpu_temperature gpu0'=34`.

    `findings` are those that are neither `pass` nor `skip`, `passed` counts checks, `values` are numbers by
    series name.
    """
    code, word = STATES[status]
    text = _UNSAFE_TEXT.sub(" ", _text(findings, passed))[:_MOST_TEXT].strip()
    data = _performance(values)
    return code, f"SGUARD {word} - {text}" + (f" | {data}" if data else "")


def _text(findings: Sequence[Finding], passed: int) -> str:
    bad = sorted(findings, key=lambda one: _SEVERITY.index(one.status))
    if not bad:
        return "1 check passed" if passed == 1 else f"{passed} checks passed"
    worst = bad[0]
    head = " ".join(part for part in (worst.fault, worst.device) if part)
    more = f", {len(bad) - 1} more" if len(bad) > 1 else ""
    return f"{head}: {worst.message}{more}"


_SEVERITY = (FAIL, TIMEOUT, WARN, UNKNOWN, SKIP, PASS)


def _performance(values: Mapping[str, float]) -> str:
    """Whole `'label'=value` pairs, as many as fit; what is no finite number is left out."""
    found, length = [], 0
    for name, value in sorted(values.items()):
        if not abs(value) < 1e300:
            continue
        pair = f"'{_UNSAFE_LABEL.sub('_', name)}'={value:.10g}"
        length += len(pair) + 1
        if length > _MOST_DATA:
            break
        found.append(pair)
    return " ".join(found)
