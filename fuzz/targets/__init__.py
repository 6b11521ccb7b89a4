"""The parsers to be fuzzed: a target takes bytes, and raises for what would be a fault of ours."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_SEEDS = Path(__file__).resolve().parents[1] / "seeds"
_MODULES = ("network", "frames", "state", "slurm_texts", "words", "kernel", "settings")


class Target(NamedTuple):
    """A parser: `run` raises only for a fault; `seeds` are inputs to begin with; `what` says what is read."""

    name: str
    what: str
    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...]


def all_targets() -> dict[str, Target]:
    """Every target by name, in the order of their modules."""
    found: dict[str, Target] = {}
    for name in _MODULES:
        for one in import_module(f"fuzz.targets.{name}").TARGETS:
            assert one.name not in found, one.name
            found[one.name] = one
    return found


def seeds(name: str) -> tuple[bytes, ...]:
    """The files of `fuzz/seeds/NAME`."""
    return tuple(path.read_bytes() for path in sorted((_SEEDS / name).iterdir()))


def require(is_so: object, what: str) -> None:
    """A property that must hold. Raises AssertionError, under `python -O` too."""
    if not is_so:
        raise AssertionError(what)
