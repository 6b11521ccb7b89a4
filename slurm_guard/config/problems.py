"""One thing that is wrong with the configuration: where, what was found, what was expected."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The way to a value: keys, and positions (from 0) in arrays.
Path = tuple[str | int, ...]

_LONGEST = 48


@dataclass(frozen=True, slots=True)
class Wrong:
    """A problem as a rule finds it: the place in the merged settings, not yet the file."""

    path: Path
    found: str
    expected: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem as a person reads it; `key` may be empty.

    `line` is None where it could not be told; `column` is known for syntax errors only. Both count from 1.
    """

    file: str
    line: int | None
    key: str
    found: str
    expected: str
    column: int | None = None

    def __str__(self) -> str:
        return self.beside("")

    def beside(self, folder: str) -> str:
        """The problem in one line; files in `folder` are named relative to it."""
        file = self.file.removeprefix(f"{folder}/") if folder else self.file
        where = ":".join(str(part) for part in (file, self.line, self.column) if part)
        key = f"{self.key}: " if self.key else ""
        return f"{where}: {key}found {self.found}; expected {self.expected}"

    def as_dict(self) -> dict[str, Any]:
        """The problem as `sguard config check --json` shows it."""
        return {name: getattr(self, name) for name in self.__slots__}


def show(value: Any) -> str:
    """A value as TOML would spell it, on one short line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an empty list" if not value else f"a list of {len(value)}"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def suggest(name: str, known: Iterable[str], what: str = "one of") -> str:
    """What was expected instead of an unknown name: the near miss if there is one, else all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f'"{near[0]}" (did you mean that?)'
    return f"{what} {', '.join(names)}" if names else "nothing here"
