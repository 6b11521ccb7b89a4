"""Every setting with its value and where it comes from, for `sguard config show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_guard.config.catalogue import Catalogue
    from slurm_guard.config.load import Reading
    from slurm_guard.config.problems import Path

BUILT_IN = "built-in default"


class Shown(NamedTuple):
    """One setting: its key, its value, and `FILE:LINE` or `built-in default`."""

    key: str
    value: Any
    origin: str


def settings(reading: Reading) -> list[Shown]:
    """All settings of a configuration without problems, in the order of the docs."""
    assert reading.config is not None
    values = reading.config.model_dump(by_alias=True, exclude={"checks", "classes", "rules", "modes"})
    found = list(_leaves(values, ()))
    found += _checks(reading.config.checks, reading.catalogue)
    config = reading.config
    for name, tables in (("class", config.classes), ("rule", config.rules), ("mode", config.modes)):
        for position, table in enumerate(tables):
            found += _leaves(
                table.model_dump(exclude_none=True, exclude_defaults=name == "rule"), (name, position)
            )
    return [Shown(_key(reading, path), value, _origin(reading, path)) for path, value in found]


def _key(reading: Reading, path: Path) -> str:
    """A setting's key; modes, and rules without a name, go by their number: two may be for one check."""
    key = reading.sources.key(path)
    if path[0] not in ("mode", "rule") or not isinstance(path[1], int):
        return key
    assert reading.config is not None
    name = reading.config.rules[path[1]].name if path[0] == "rule" else ""
    return f"{path[0]}[{name or f'#{path[1] + 1}'}]{key[key.index(']') + 1 :]}"


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Every value that is not a table, and every array of tables' values."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for position, inner in enumerate(value):
            yield from _leaves(inner, (*path, position))
    elif not isinstance(value, dict):
        yield path, value


def _checks(given: dict[str, dict[str, Any]], catalogue: Catalogue) -> Iterator[tuple[Path, Any]]:
    """Every check's parameters, the defaults of those that are not set included."""
    for name in catalogue.names:
        values = {"enabled": True, **catalogue.defaults(name), **given.get(name, {})}
        for key, value in values.items():
            yield ("checks", name, key), value


def _origin(reading: Reading, path: Path) -> str:
    if not reading.sources.is_set(path):
        return BUILT_IN
    return reading.sources.place(path)
