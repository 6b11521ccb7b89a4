"""The site's rules over the default policy: which fault, when and where, is treated how.

A compiled rule is a JSON object of the plan: `fault` (a fault, a check, or the start of names and a `*`) and,
where the rule says so, the conditions `hooks` and `node` (`idle` or `allocated`) and the effects `tier`,
`action`, `runs` and `of`, `minimum_s`, `escalate` ({after, within_s, tier}) and `quiet` (["22:00-06:00"]);
`source` is `FILE:LINE`. Nodes, classes and partitions are no conditions here: each node's plan has only the
rules that concern it. Rules apply in order, and of each effect the last one that a fitting rule gives counts.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

#: The most that may be done, from least to most; None leaves it to the tier and the list of refusals.
ACTIONS = ("none", "tell", "drain", "refuse")
DAY_MIN = 24 * 60
_EFFECTS = ("tier", "action", "minimum_s", "escalate", "quiet")


class Treatment:
    """How one fault is treated here and now; `sources` says which rules made it so, in order.

    `tier` is None where no rule names one; `action` is one of ACTIONS or None; `runs` of `of` runs must have
    seen the fault (None: as the plan's `confirm` says), for `minimum_s` seconds without a break.
    """

    __slots__ = ("action", "escalate", "minimum_s", "of", "quiet", "runs", "sources", "tier")

    def __init__(self) -> None:
        self.tier: str | None = None
        self.action: str | None = None
        self.runs: int | None = None
        self.of: int | None = None
        self.minimum_s: float = 0.0
        self.escalate: dict[str, Any] = {}
        self.quiet: list[str] = []
        self.sources: list[str] = []


def treatment(rules: Iterable[dict[str, Any]], fault: str, hook: str, idle: bool | None) -> Treatment:
    """What the rules make of a fault; `idle` is None where that is not known: then no rule about it fits."""
    found = Treatment()
    for rule in rules:
        if not _fits(rule, fault, hook, idle):
            continue
        for name in _EFFECTS:
            if name in rule:
                setattr(found, name, rule[name])
        if "runs" in rule:
            found.runs, found.of = rule["runs"], rule.get("of", rule["runs"])
        found.sources.append(str(rule.get("source", "")))
    return found


def checked(rule: Any) -> dict[str, Any]:
    """A rule of a plan as it is, if this code can apply it. Raises LookupError, TypeError or ValueError."""
    found: dict[str, Any] = {**rule, "fault": str(rule["fault"])}
    for window in found.get("quiet", ()):
        quiet_until([window], 0)
    if "escalate" in found:
        one = found["escalate"]
        found["escalate"] = {
            "after": int(one["after"]),
            "within_s": float(one["within_s"]),
            "tier": str(one["tier"]),
        }
    for name in ("runs", "of"):
        if name in found:
            found[name] = int(found[name])
    if "minimum_s" in found:
        found["minimum_s"] = float(found["minimum_s"])
    return found


def names_fault(pattern: str, fault: str) -> bool:
    """True if a pattern names a fault: `gpu_xid.79` one, `gpu_xid` all of a check, `gpu_*` by their start."""
    if pattern.endswith("*"):
        return fault.startswith(pattern[:-1])
    return pattern in (fault, fault.partition(".")[0])


def _fits(rule: dict[str, Any], fault: str, hook: str, idle: bool | None) -> bool:
    if not names_fault(str(rule.get("fault", "")), fault):
        return False
    if "hooks" in rule and hook not in rule["hooks"]:
        return False
    return "node" not in rule or (idle is not None and (rule["node"] == "idle") == idle)


def quiet_until(windows: Iterable[str], minute: int) -> str:
    """The end (`06:00`) of the window that a minute of the day is in; empty outside of all.

    A window is `HH:MM-HH:MM` and may go over midnight; its end is not in it. Without a length it is all day.
    """
    for window in windows:
        start, end = (minutes(part) for part in window.split("-"))
        if (minute - start) % DAY_MIN < ((end - start) % DAY_MIN or DAY_MIN):
            return window.partition("-")[2].strip()
    return ""


def minutes(text: str) -> int:
    """`HH:MM` as minutes since midnight, `24:00` as 0. Raises ValueError for anything else."""
    hours, colon, rest = text.strip().partition(":")
    digits = hours + rest
    if colon and len(rest) == 2 and 1 <= len(hours) <= 2 and digits.isascii() and digits.isdigit():
        found = int(hours) * 60 + int(rest)
        if int(rest) < 60 and found <= DAY_MIN:
            return found % DAY_MIN
    raise ValueError(f"{text!r} is no time of day; expected HH:MM, from 00:00 to 24:00")
