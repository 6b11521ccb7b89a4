"""Rules that need more than one value: node sets, names of checks and faults, patterns, duplicates.

They read the merged TOML values, not the model, so that they speak up even where something else is wrong,
and they pass over what has the wrong shape: that is reported already.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from slurm_guard.config.problems import Wrong, show, suggest
from slurm_guard.core.plan import matches
from slurm_guard.slurm.hostlist import expand

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_guard.config.catalogue import Catalogue
    from slurm_guard.config.problems import Path

_DECLARED = frozenset({"name", "nodes", "mounts", "references", "checks"})


def find_wrong(settings: dict[str, Any], catalogue: Catalogue) -> list[Wrong]:
    """Everything these rules object to."""
    return [
        *_check_tables(settings.get("checks"), ("checks",), catalogue, {}),
        *_policy(settings.get("policy"), catalogue),
        *_classes(settings, catalogue),
        *_node_sets(settings),
        *_rules(settings, catalogue),
        *_modes(settings, catalogue),
    ]


def find_wrong_partitions(settings: dict[str, Any], partitions: dict[str, list[str]]) -> list[Wrong]:
    """Partitions that rules name and slurm.conf does not have, or that have no nodes."""
    wrong = []
    for position, table in _tables(settings, "rule"):
        named = table.get("partitions")
        for index, name in enumerate(named if isinstance(named, list) else []):
            if not partitions.get(name):
                what = "which has no nodes" if name in partitions else "which slurm.conf does not have"
                others = [other for other, nodes in partitions.items() if nodes]
                wrong.append(
                    Wrong(
                        ("rule", position, "partitions", index),
                        f"{show(name)}, {what}",
                        suggest(name, others),
                    )
                )
    return wrong


def _tables(settings: dict[str, Any], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The tables of an array, with their positions; anything else is left out."""
    found = settings.get(name)
    for position, table in enumerate(found if isinstance(found, list) else []):
        if isinstance(table, dict):
            yield position, table


def _items(table: Any) -> Iterator[tuple[str, Any]]:
    yield from table.items() if isinstance(table, dict) else ()


def _check_tables(tables: Any, at: Path, catalogue: Catalogue, general: Any) -> Iterator[Wrong]:
    """`[checks.NAME]`, and `[class.checks.NAME]`, which comes over the `general` ones."""
    for name, parameters in _items(tables):
        if name not in catalogue.names:
            yield Wrong((*at, name), f'an unknown check "{name}"', suggest(name, catalogue.names))
            continue
        for key, value in _items(parameters):
            wrong = catalogue.wrong_parameter(name, key, value)
            if wrong:
                yield Wrong((*at, name, key), *wrong)
        beneath = dict(_items(dict(_items(general)).get(name)))
        for key, found, expected in catalogue.falling(name, dict(_items(parameters)), beneath):
            yield Wrong((*at, name, key), found, expected)


def _policy(policy: Any, catalogue: Catalogue) -> Iterator[Wrong]:
    for fault, _tier in _items(policy):
        wrong = catalogue.wrong_fault(fault)
        if wrong:
            yield Wrong(("policy", fault), *wrong)


def _classes(settings: dict[str, Any], catalogue: Catalogue) -> Iterator[Wrong]:
    names: set[str] = set()
    for position, table in _tables(settings, "class"):
        at: Path = ("class", position)
        name = table.get("name")
        if isinstance(name, str):
            if name in names:
                yield Wrong((*at, "name"), f'a second class "{name}"', "another name, each class once")
            names.add(name)
        yield from _expected_values(table, at, catalogue)
        yield from _mounts(table.get("mounts"), (*at, "mounts"))
        yield from _references(table.get("references"), (*at, "references"), catalogue)
        yield from _check_tables(table.get("checks"), (*at, "checks"), catalogue, settings.get("checks"))


def _expected_values(table: dict[str, Any], at: Path, catalogue: Catalogue) -> Iterator[Wrong]:
    known = catalogue.expected()
    for key, value in table.items():
        if key in _DECLARED or key in ("gpus", "ib_ports"):
            continue
        if key not in known and not catalogue.broken:
            yield Wrong((*at, key), "an unknown key", suggest(key, _DECLARED | known))
        elif not _is_plain(value):
            yield Wrong((*at, key), show(value), "a number, a text, true or false, or a list of these")


def _references(references: Any, at: Path, catalogue: Catalogue) -> Iterator[Wrong]:
    """A reference for a metric that nothing measures, or in another unit, would never be judged."""
    for metric, reference in _items(references):
        unit = reference.get("unit") if isinstance(reference, dict) else None
        wrong = catalogue.wrong_reference(metric, unit)
        if wrong:
            yield Wrong((*at, metric, *(("unit",) if metric in catalogue.metrics() else ())), *wrong)


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(_is_plain(item) and not isinstance(item, list) for item in value)
    if isinstance(value, (int, float)):
        return abs(value) < 1 << 63
    return isinstance(value, str)


def _mounts(mounts: Any, at: Path) -> Iterator[Wrong]:
    paths: set[str] = set()
    for position, mount in enumerate(mounts if isinstance(mounts, list) else []):
        path = mount.get("path") if isinstance(mount, dict) else None
        if not isinstance(path, str) or not path.startswith("/"):
            continue
        if path != posixpath.normpath(path):
            yield Wrong((*at, position, "path"), show(path), f'"{posixpath.normpath(path)}"')
        if path in paths:
            yield Wrong((*at, position, "path"), f"{show(path)} a second time", "each mount once per class")
        paths.add(path)


def _node_sets(settings: dict[str, Any]) -> Iterator[Wrong]:
    """Every hostlist must be readable and name a node, and no node may be in two classes."""
    owner: dict[str, int] = {}
    for position, table in _tables(settings, "class"):
        nodes, wrong = _expanded(table.get("nodes"), ("class", position, "nodes"))
        yield from wrong
        for name in dict.fromkeys(nodes):
            if name in owner:
                yield _twice(name, owner[name], position, settings)
                break
        for name in nodes:
            owner.setdefault(name, position)
    for array in ("rule", "mode"):
        for position, table in _tables(settings, array):
            yield from _expanded(table.get("nodes"), (array, position, "nodes"))[1]


def _twice(node: str, first: int, second: int, settings: dict[str, Any]) -> Wrong:
    name = settings["class"][first].get("name", f"#{first + 1}")
    found = f'node "{node}", which is in class "{name}" too'
    return Wrong(("class", second, "nodes"), found, "each node in one class")


def _expanded(text: Any, at: Path) -> tuple[list[str], list[Wrong]]:
    if not isinstance(text, str):
        return [], []
    try:
        nodes = expand(text) if text.strip() else []
    except ValueError as error:
        return [], [Wrong(at, f"{show(text)} ({error})", 'a hostlist such as "gpu[001-016],login1"')]
    if not nodes:
        return [], [Wrong(at, f"{show(text)}, which names no node", "a hostlist with at least one node")]
    return nodes, []


def _rules(settings: dict[str, Any], catalogue: Catalogue) -> Iterator[Wrong]:
    classes = [str(table.get("name")) for _, table in _tables(settings, "class")]
    for position, table in _tables(settings, "rule"):
        fault, named = table.get("fault"), table.get("classes")
        wrong = catalogue.wrong_pattern(fault) if isinstance(fault, str) else None
        if wrong:
            yield Wrong(("rule", position, "fault"), *wrong)
        for index, name in enumerate(named if isinstance(named, list) else []):
            if name not in classes:
                yield Wrong(
                    ("rule", position, "classes", index),
                    f"an unknown class {show(name)}",
                    suggest(str(name), classes),
                )


def _modes(settings: dict[str, Any], catalogue: Catalogue) -> Iterator[Wrong]:
    for position, table in _tables(settings, "mode"):
        pattern = table.get("check", "*")
        if not isinstance(pattern, str):
            continue
        at: Path = ("mode", position, "check")
        if "*" in pattern[:-1]:
            yield Wrong(at, show(pattern), 'a check, "*", or the start of names and a "*" at the end')
        elif not any(matches(pattern, name) for name in catalogue.names):
            yield Wrong(
                at, f"{show(pattern)}, which matches no check", suggest(pattern, [*catalogue.names, "*"])
            )
