"""From checked settings to the bundle that the hooks read (docs/plan.md). Pure: same settings, same hash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slurm_guard import __version__
from slurm_guard.core import plan
from slurm_guard.slurm.hostlist import expand

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slurm_guard.config.catalogue import Catalogue
    from slurm_guard.config.host import Host
    from slurm_guard.config.model import Config, Mount, NodeClass, Reference
    from slurm_guard.config.rule import Rule

    #: Positions in an array of tables.
    _Positions = tuple[int, ...]

SCHEMA = f"{plan.MAJOR}.0"


def compile_bundle(config: Config, host: Host, catalogue: Catalogue, built_at: int) -> dict[str, Any]:
    """The plan of the whole cluster, hash included."""
    profiles, nodes = _profiles(config, host.partitions, catalogue)
    rules, modes = _places_of_rules(config, host.partitions), _places_of_modes(config)
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
        "new_check_s": config.new_check_s,
        "check_since": {},  # `config.newcomers` compares with the plan before
        "spool": config.spool.model_dump(),
        "budget": config.budget.model_dump(),
        "return": config.returning.model_dump(),
        "confirm": config.confirm.model_dump(),
        "collector": config.collector.for_nodes(),
        "chain": config.chain.for_nodes(),
        "tiers": dict(config.policy),
        "profiles": profiles,
        "default_profile": _profile(config, None, rules.everywhere, modes.everywhere, catalogue),
        "nodes": nodes,
    }
    bundle["hash"] = plan.digest(bundle)
    return bundle


def _profiles(
    config: Config, partitions: dict[str, list[str]], catalogue: Catalogue
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """One profile per distinct (class, rules, mode rules), and the index of each node's profile."""
    profiles: list[dict[str, Any]] = []
    indices: dict[tuple[int | None, _Positions, _Positions], int] = {}
    nodes: dict[str, int] = {}
    classes = {name: index for index, one in enumerate(config.classes) for name in expand(one.nodes)}
    rules, modes = _places_of_rules(config, partitions), _places_of_modes(config)
    for name in sorted({*classes, *rules.own, *modes.own}):
        key = (classes.get(name), rules.of(name), modes.of(name))
        if key not in indices:
            node_class = None if key[0] is None else config.classes[key[0]]
            indices[key] = len(profiles)
            profiles.append(_profile(config, node_class, key[1], key[2], catalogue))
        nodes[name] = indices[key]
    return profiles, nodes


class _Where:
    """Which tables of an array concern which nodes: `everywhere`, or by node name in `own`, by position."""

    def __init__(self, named: Iterable[Iterable[str] | None]) -> None:
        everywhere: list[int] = []
        self.own: dict[str, list[int]] = {}
        for index, nodes in enumerate(named):
            if nodes is None:
                everywhere.append(index)
            for name in dict.fromkeys(nodes or ()):
                self.own.setdefault(name, []).append(index)
        self.everywhere: _Positions = tuple(everywhere)

    def of(self, name: str) -> _Positions:
        return tuple(sorted((*self.everywhere, *self.own.get(name, ()))))


def _places_of_modes(config: Config) -> _Where:
    return _Where(None if rule.nodes is None else expand(rule.nodes) for rule in config.modes)


def _places_of_rules(config: Config, partitions: dict[str, list[str]]) -> _Where:
    """Where `nodes`, `classes` and `partitions` of a rule all fit; everywhere if it has none of them."""
    classes: dict[str, list[str]] = {one.name: expand(one.nodes) for one in config.classes}
    return _Where(_nodes_of_rule(rule, classes, partitions) for rule in config.rules)


def _nodes_of_rule(
    rule: Rule, classes: dict[str, list[str]], partitions: dict[str, list[str]]
) -> list[str] | None:
    found: list[list[str]] = []
    if rule.nodes is not None:
        found.append(expand(rule.nodes))
    if rule.classes is not None:
        found.append([node for name in rule.classes for node in classes.get(name, ())])
    if rule.partitions is not None:
        found.append([node for name in rule.partitions for node in partitions.get(name, ())])
    if not found:
        return None
    return sorted(set(found[0]).intersection(*found[1:]))


def _profile(
    config: Config,
    node_class: NodeClass | None,
    rules: _Positions,
    modes: _Positions,
    catalogue: Catalogue,
) -> dict[str, Any]:
    profile: dict[str, Any] = {
        "class": node_class.name if node_class else "",
        "expected": _expected(node_class) if node_class else {},
        "references": _references(node_class.references) if node_class else {},
        "rules": [config.rules[index].compiled(index) for index in rules],
        "modes": [[rule.check, rule.action, rule.mode] for rule in (config.modes[index] for index in modes)],
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
