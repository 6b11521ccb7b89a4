"""What differs between two plans, in words for a person."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from slurm_guard.slurm.hostlist import fold

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLAIN = (
    "guard_version", "cluster", "owners", "programs", "slurm_conf", "nvml_library", "python_path", "grace_s",
    "stale_after_s", "new_check_s",
)  # fmt: skip
_TABLES = ("deadlines", "spool", "budget", "return", "confirm", "collector", "tiers")


def describe_changes(old: dict[str, Any] | None, new: dict[str, Any]) -> list[str]:
    """One sentence per change; empty if nothing changed or there was nothing before."""
    if not old or old.get("hash") == new["hash"]:
        return []
    return [*_settings(old, new), *_nodes(old, new)]


def _settings(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    for name in _PLAIN:
        yield from _change(name, old.get(name), new.get(name))
    for table in _TABLES:
        yield from _table_changes(table, old.get(table) or {}, new.get(table) or {})


def _table_changes(table: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    for name in sorted({*before, *after}):
        yield from _change(f"{table}.{name}", before.get(name), after.get(name))


def _change(name: str, before: Any, after: Any) -> Iterator[str]:
    if before != after:
        yield f"{name}: {_text(before)} -> {_text(after)}"


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return "nothing" if value is None else json.dumps(value)


def _nodes(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    """Nodes that came, went, or have other settings now, each change once with all its nodes."""
    before, after = old.get("nodes") or {}, new.get("nodes") or {}
    for word, names in (("added", after.keys() - before.keys()), ("removed", before.keys() - after.keys())):
        if names:
            yield f"{len(names)} {'node' if len(names) == 1 else 'nodes'} {word}: {fold(sorted(names))}"
    for change, names in _profile_changes(old, new, sorted(before.keys() & after.keys())).items():
        yield f"{change} ({fold(names) if names else 'nodes without a class'})"


def _profile_changes(old: dict[str, Any], new: dict[str, Any], names: list[str]) -> dict[str, list[str]]:
    """Each change of a profile with the nodes that it concerns; none: only nodes that no class names."""
    found: dict[str, list[str]] = {
        change: [] for change in _profile_change(old.get("default_profile") or {}, new["default_profile"])
    }
    pairs: dict[tuple[int, int], list[str]] = {}
    for name in names:
        pairs.setdefault((old["nodes"][name], new["nodes"][name]), []).append(name)
    for (was, now), nodes in pairs.items():
        for change in _profile_change(old["profiles"][was], new["profiles"][now]):
            found.setdefault(change, []).extend(nodes)
    return found


def _profile_change(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    for name in ("class", "rules", "modes"):
        yield from _change(name, before.get(name), after.get(name))
    for table in ("expected", "references", "checks"):
        yield from _table_changes(table, before.get(table) or {}, after.get(table) or {})
