"""Checks that are new to the plan: since when, so that they only observe at first."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from slurm_guard.core import plan

if TYPE_CHECKING:
    from collections.abc import Iterator


def since(
    before: dict[str, Any] | None, after: dict[str, Any], now: int, *, approve: bool = False
) -> dict[str, int]:
    """`check_since` of a new bundle: what the plan before did not enable on any node, and from when on.

    Times of the plan before are kept, so the same settings give the same plan. `approve` is an admin's word
    that nothing is new. Nothing is new where there was no plan before, or one that does not name its checks.
    """
    known, enabled = _enabled(before or {}), _enabled(after)
    if approve or known is None or enabled is None:
        return {}
    kept = (before or {}).get("check_since") or {}
    found = {name: kept[name] for name in known & enabled if name in kept}
    return {**found, **dict.fromkeys(enabled - known, now)}


def describe(before: dict[str, Any] | None, after: dict[str, Any], now: float) -> Iterator[str]:
    """What is new, and until when it is only observed; what is new no longer because an admin said so."""
    ends = plan.newcomers(after, now)
    for name, until in sorted(ends.items()):
        yield f"{name} is new to the plan: its drains and refusals are only observed until {_day(until)}"
    approved = plan.newcomers(before or {}, now).keys() - ends.keys()
    for name in sorted(approved & (_enabled(after) or set())):
        yield f"{name} is no longer new to the plan: its modes hold from now on"


def _day(until: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(until))


def _enabled(bundle: dict[str, Any]) -> set[str] | None:
    """The checks that any node of a bundle runs; None where a profile does not name its checks."""
    used = {index for index in bundle.get("nodes", {}).values() if isinstance(index, int)}
    profiles = [one for index, one in enumerate(bundle.get("profiles", [])) if index in used]
    checks = [one.get("checks") for one in (*profiles, bundle.get("default_profile") or {})]
    if not all(isinstance(one, dict) for one in checks):
        return None
    return {name for one in checks for name in one}
