"""What the check classes allow in a configuration: names, parameters, faults, expected values."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from slurm_guard.config.problems import show, suggest
from slurm_guard.core import check

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: Expected values that every node class may have, whatever the checks say.
EXPECTED = frozenset({"gpus", "ib_ports"})
_LARGEST = 1 << 63


class Catalogue:
    """All built-in checks; `broken` maps those whose module cannot be imported to the reason.

    A broken module does not keep a configuration from being read: what belongs to it is taken unchecked.
    """

    def __init__(
        self, classes: Mapping[str, type[check.Check]], broken: Mapping[str, str] | None = None
    ) -> None:
        self.classes = dict(classes)
        self.broken = dict(broken or {})

    @property
    def names(self) -> list[str]:
        """Every check there is, broken ones too."""
        return sorted({*self.classes, *self.broken})

    def defaults(self, name: str) -> dict[str, Any]:
        """A check's parameters with their defaults; empty for a broken one."""
        found = self.classes.get(name)
        return dict(found.params) if found else {}

    def expected(self) -> frozenset[str]:
        """Keys that a node class may give: what checks take from it where their parameter has no default."""
        taken = (name for cls in self.classes.values() for name, value in cls.params.items() if value is None)
        return EXPECTED | frozenset(taken)

    def wrong_parameter(self, name: str, key: str, value: Any) -> tuple[str, str] | None:
        """What is wrong with a parameter of a check, as (found, expected); None if nothing is."""
        if key == "enabled":
            return None if isinstance(value, bool) else (show(value), "true or false")
        if name in self.broken:
            return None
        known = self.defaults(name)
        if key not in known:
            return f'an unknown parameter "{key}"', suggest(key, ["enabled", *known])
        expected = _mismatch(value, known[key])
        return (show(value), expected) if expected else None

    def wrong_fault(self, fault: str) -> tuple[str, str] | None:
        """What is wrong with a policy's key (check or fault), as (found, expected); None if nothing is."""
        name, _, code = fault.partition(".")
        if name not in self.names:
            return f'an unknown check "{name}"', suggest(name, self.names)
        if not code or name in self.broken:
            return None
        cls = self.classes[name]
        if code in cls.faults or (cls.open_faults and re.fullmatch(cls.open_faults, code, re.ASCII)):
            return None
        known = [name, *(f"{name}.{listed}" for listed in cls.faults if not listed.isdecimal())]
        found, expected = f'an unknown fault "{fault}"', suggest(fault, known)
        return found, f"{cls.open_faults_text}, or {expected}" if cls.open_faults else expected

    def wrong_pattern(self, pattern: str) -> tuple[str, str] | None:
        """What is wrong with a rule's fault: a fault, a check, or the start of names and a `*`."""
        if not pattern.endswith("*"):
            return self.wrong_fault(pattern)
        start = pattern[:-1]
        if "*" in start:
            return show(pattern), 'a fault, a check, or the start of names and a "*" at the end'
        name, dot, code = start.partition(".")
        if not dot:
            fits = any(known.startswith(name) for known in self.names)
            return (
                None
                if fits
                else (f"{show(pattern)}, which matches no check", suggest(name, [*self.names, "*"]))
            )
        if name not in self.names:
            return f'an unknown check "{name}"', suggest(name, self.names)
        if name in self.broken or self.classes[name].open_faults:
            return None
        codes = self.classes[name].faults
        fits = any(known.startswith(code) for known in codes)
        return (
            None
            if fits
            else (
                f"{show(pattern)}, which matches no fault",
                suggest(start, [f"{name}.{one}" for one in codes]),
            )
        )

    def metrics(self) -> dict[str, str]:
        """Every metric that a class may give a reference for, with its unit."""
        return {metric: unit for cls in self.classes.values() for metric, unit in cls.metrics.items()}

    def wrong_reference(self, metric: str, unit: Any) -> tuple[str, str] | None:
        """What is wrong with a reference's metric or unit, as (found, expected); None if nothing is."""
        known = self.metrics()
        if metric not in known:
            found = f'a reference for "{metric}", which no check judges'
            return None if self.broken else (found, suggest(metric, known))
        if not unit or unit == known[metric]:
            return None
        return f"{show(unit)}, but {metric} is measured in another unit", f'"{known[metric]}"'

    def falling(
        self, name: str, own: Mapping[str, Any], general: Mapping[str, Any]
    ) -> Iterator[tuple[str, str, str]]:
        """Parameters of one table that contradict another, as (key, found, expected).

        `general` are the values that `own` comes over; what neither sets is the default.
        """
        found = self.classes.get(name)
        values = {**self.defaults(name), **general, **own}
        for low, high in found.rising if found else ():
            at, other, word = (high, low, "at least") if high in own else (low, high, "at most")
            if (
                at in own
                and _is_number(values[low])
                and _is_number(values[high])
                and values[high] < values[low]
            ):
                yield at, show(values[at]), f"{word} {values[other]}, the value of `{other}`"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _mismatch(value: Any, default: Any) -> str:
    """What type was expected, or "" if the value is of the default's type."""
    if isinstance(value, (int, float)) and not (math.isfinite(value) and abs(value) < _LARGEST):
        return "a finite number that fits 64 bits"
    if default is None:
        return "" if isinstance(value, (bool, int, float, str, list)) else "a number, a text or a list"
    for kind, accepted, words in _KINDS:
        if isinstance(default, kind):
            fits = isinstance(value, accepted) and isinstance(value, bool) == (kind is bool)
            return "" if fits and _items_fit(value, default) else _of_items(words, default)
    return ""


_KINDS: tuple[tuple[type, tuple[type, ...], str], ...] = (
    (bool, (bool,), "true or false"),
    (int, (int, float), "a number"),
    (float, (int, float), "a number"),
    (str, (str,), "a text"),
    ((list), (list,), "a list"),
    ((tuple), (list,), "a list"),
    (dict, (dict,), "a table"),
)


def _items_fit(value: Any, default: Any) -> bool:
    """A list's items must be of the kind that the default's first item has."""
    if not isinstance(value, list):
        return True
    model = next(iter(default), None)
    plain = all(isinstance(item, (bool, int, float, str)) for item in value)
    return plain if model is None else all(not _mismatch(item, model) for item in value)


def _of_items(words: str, default: Any) -> str:
    model = next(iter(default), None) if isinstance(default, (list, tuple)) else None
    return words if model is None else f"{words} like {show(model)}"


def load(names: Iterable[str] | None = None) -> Catalogue:
    """Import every built-in check (or the named ones)."""
    classes: dict[str, type[check.Check]] = {}
    broken: dict[str, str] = {}
    for name in check.names() if names is None else names:
        try:
            classes[name] = check.load(name)
        except Exception as error:  # noqa: BLE001 - a broken check may raise anything, and must not matter here
            broken[name] = f"{type(error).__name__}: {error}"
    return Catalogue(classes, broken)
