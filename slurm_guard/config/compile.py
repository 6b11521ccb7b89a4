"""From checked settings to the bundle that the hooks read (docs/plan.md). Pure: same settings, same hash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slurm_guard import __version__
from slurm_guard.core import plan
from slurm_guard.slurm.hostlist import expand

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_guard.config.catalogue import Catalogue
    from slurm_guard.config.host import Host
    from slurm_guard.config.model import Config, Mount, NodeClass, Reference

SCHEMA = f"{plan.MAJOR}.0"


def compile_bundle(config: Config, host: Host, catalogue: Catalogue, built_at: int) -> dict[str, Any]:
    """The plan of the whole cluster, hash included."""
    profiles, nodes = _profiles(config, catalogue)
    bundle: dict[str, Any] = {
        "schema": SCHEMA,
        "hash": "",
        "built_at": built_at,
        "guard_version": __version__,
        "cluster": config.cluster or host.cluster,
        "owners": list(config.owners),
        "programs": dict(host.programs),
        "slurm_conf": host.slurm_conf,
        "nvml_library": config.nvml.library,
        "python_path": list(host.python_path),
        "deadlines": config.deadlines.model_dump(),
        "grace_s": config.grace_s,
        "stale_after_s": config.stale_after_s,
        "spool": config.spool.model_dump(),
        "budget": config.budget.model_dump(),
        "return": config.returning.model_dump(),
        "confirm": config.confirm.model_dump(),
        "collector": config.collector.for_nodes(),
        "tiers": dict(config.policy),
        "profiles": profiles,
        "default_profile": _profile(config, None, _rules_for_all(config), catalogue),
        "nodes": nodes,
    }
    bundle["hash"] = plan.digest(bundle)
    return bundle


def _profiles(config: Config, catalogue: Catalogue) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """One profile per distinct (class, mode rules), and the index of each node's profile."""
    profiles: list[dict[str, Any]] = []
    indices: dict[tuple[int | None, tuple[int, ...]], int] = {}
    nodes: dict[str, int] = {}
    for name, position, rules in _settings_of_nodes(config):
        key = (position, rules)
        if key not in indices:
            node_class = None if position is None else config.classes[position]
            indices[key] = len(profiles)
            profiles.append(_profile(config, node_class, rules, catalogue))
        nodes[name] = indices[key]
    return profiles, nodes


def _settings_of_nodes(config: Config) -> Iterator[tuple[str, int | None, tuple[int, ...]]]:
    """Every named node, sorted, with its class and the mode rules that concern it (by position)."""
    classes = {name: index for index, one in enumerate(config.classes) for name in expand(one.nodes)}
    everywhere = _rules_for_all(config)
    own: dict[str, list[int]] = {}
    for index, rule in enumerate(config.modes):
        for name in dict.fromkeys(expand(rule.nodes)) if rule.nodes is not None else ():
            own.setdefault(name, []).append(index)
    for name in sorted({*classes, *own}):
        rules = tuple(sorted((*everywhere, *own.get(name, ()))))
        yield name, classes.get(name), rules


def _rules_for_all(config: Config) -> tuple[int, ...]:
    return tuple(index for index, rule in enumerate(config.modes) if rule.nodes is None)


def _profile(
    config: Config, node_class: NodeClass | None, rules: tuple[int, ...], catalogue: Catalogue
) -> dict[str, Any]:
    modes = [config.modes[index] for index in rules]
    profile: dict[str, Any] = {
        "class": node_class.name if node_class else "",
        "expected": _expected(node_class) if node_class else {},
        "references": _references(node_class.references) if node_class else {},
        "modes": [[rule.check, rule.action, rule.mode] for rule in modes],
    }
    if catalogue.names:
        profile["checks"] = _checks(config, node_class, catalogue)
    return profile


def _checks(config: Config, node_class: NodeClass | None, catalogue: Catalogue) -> dict[str, dict[str, Any]]:
    """Every enabled check with the parameters that the site sets; a class's own come last."""
    enabled = {}
    for name in catalogue.names:
        own = node_class.checks.get(name, {}) if node_class else {}
        parameters = {**config.checks.get(name, {}), **own}
        if parameters.pop("enabled", True):
            enabled[name] = parameters
    return enabled


def _expected(node_class: NodeClass) -> dict[str, Any]:
    counts = {"gpus": node_class.gpus, "ib_ports": node_class.ib_ports}
    found: dict[str, Any] = {name: value for name, value in counts.items() if value is not None}
    found.update(node_class.model_extra or {})
    if node_class.mounts:
        found["mounts"] = [_mount(mount) for mount in node_class.mounts]
    return found


def _mount(mount: Mount) -> dict[str, Any]:
    return mount.model_dump(exclude_none=True)


def _references(references: dict[str, Reference]) -> dict[str, list[Any]]:
    return {name: [one.value, one.lower, one.upper, one.unit] for name, one in references.items()}
