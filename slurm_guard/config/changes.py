"""What differs between two plans, in words for a person."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from slurm_guard.config.hostlists import fold

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLAIN = (
    "guard_version", "cluster", "owners", "programs", "slurm_conf", "nvml_library", "python_path", "grace_s",
    "stale_after_s",
)  # fmt: skip
_TABLES = ("deadlines", "spool", "budget", "return", "confirm", "tiers")


def describe_changes(old: dict[str, Any] | None, new: dict[str, Any]) -> list[str]:
    """One sentence per change; empty if nothing changed or there was nothing before."""
    if not old or old.get("hash") == new["hash"]:
        return []
    return [*_settings(old, new), *_nodes(old, new)]


def _settings(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    for name in _PLAIN:
        yield from _change(name, old.get(name), new.get(name))
    for table in _TABLES:
        before, after = old.get(table) or {}, new.get(table) or {}
        for name in sorted({*before, *after}):
            yield from _change(f"{table}.{name}", before.get(name), after.get(name))
    if old.get("default_profile") != new.get("default_profile"):
        yield from _profile_changes("nodes without a class", old["default_profile"], new["default_profile"])


def _change(name: str, before: Any, after: Any) -> Iterator[str]:
    if before != after:
        yield f"{name}: {_text(before)} -> {_text(after)}"


def _text(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value)


def _nodes(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    """Nodes that came, went, or have other settings now; the latter grouped by what changed."""
    before, after = old.get("nodes") or {}, new.get("nodes") or {}
    for word, names in (("added", after.keys() - before.keys()), ("removed", before.keys() - after.keys())):
        if names:
            yield f"{len(names)} node(s) {word}: {fold(sorted(names))}"
    moved: dict[tuple[int, int], list[str]] = {}
    for name in sorted(before.keys() & after.keys()):
        moved.setdefault((before[name], after[name]), []).append(name)
    for (was, now), names in moved.items():
        yield from _profile_changes(fold(names), old["profiles"][was], new["profiles"][now])


def _profile_changes(who: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    yield from _change(f"{who}: class", before.get("class"), after.get("class"))
    yield from _change(f"{who}: modes", before.get("modes"), after.get("modes"))
    for table in ("expected", "references", "checks"):
        was, now = before.get(table) or {}, after.get(table) or {}
        for name in sorted({*was, *now}):
            yield from _change(f"{who}: {table}.{name}", was.get(name), now.get(name))
