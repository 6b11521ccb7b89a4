"""Reads `slurm-guard.toml` and `conf.d/*.toml` and lays them over each other; remembers who said what."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from slurm_guard.config.lines import find_line
from slurm_guard.config.problems import Path, Problem, Wrong
from slurm_guard.engine import files

if TYPE_CHECKING:
    from slurm_guard.core.paths import Places

LARGEST = 4 << 20
#: Arrays of tables that all files add to; any other value of a later file replaces the earlier one.
_ADDED = ("class", "rule", "mode")
_POSITION = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)


class Sources:
    """The merged settings as plain TOML values, and for each of them the file it came from.

    `files` are those that were read, in order; `problems` is what kept a file from being read.
    """

    def __init__(self) -> None:
        self.files: list[str] = []
        self.settings: dict[str, Any] = {}
        self.problems: list[Problem] = []
        self._texts: dict[str, str] = {}
        self._origins: dict[Path, tuple[str, Path]] = {}

    def add(self, file: str, text: str, values: dict[str, Any]) -> None:
        """Lay one more file over what is there."""
        self.files.append(file)
        self._texts[file] = text
        self._merge(self.settings, values, (), file)

    def _merge(self, into: dict[str, Any], values: dict[str, Any], path: Path, file: str) -> None:
        for name, value in values.items():
            here = (*path, name)
            if here[0] in _ADDED and len(here) == 1 and isinstance(value, list):
                self._append(into, name, value, file)
            elif isinstance(value, dict):
                if not isinstance(into.get(name), dict):
                    into[name] = {}
                self._origins.setdefault(here, (file, here))
                self._merge(into[name], value, here, file)
            else:
                into[name] = value
                self._origins[here] = (file, here)

    def _append(self, into: dict[str, Any], name: str, tables: list[Any], file: str) -> None:
        if not isinstance(into.get(name), list):
            into[name] = []
        for position, table in enumerate(tables):
            self._origins[name, len(into[name])] = (file, (name, position))
            into[name].append(table)

    def flatten(self, table: str) -> None:
        """Make `gpu_xid.79 = …`, which TOML reads as a table in a table, the same as `"gpu_xid.79" = …`."""
        values = self.settings.get(table)
        if not isinstance(values, dict):
            return
        for outer in [name for name, value in values.items() if isinstance(value, dict)]:
            for inner, value in values.pop(outer).items():
                values[f"{outer}.{inner}"] = value
                self._origins[table, f"{outer}.{inner}"] = self._origins[table, outer, inner]

    def origin(self, path: Path) -> tuple[str, Path]:
        """The file that a value came from and the value's path in it; `("", path)` for a built-in default."""
        for length in range(len(path), 0, -1):
            found = self._origins.get(path[:length])
            if found is not None:
                return found[0], (*found[1], *path[length:])
        return "", path

    def is_set(self, path: Path) -> bool:
        """True if a file gives this value."""
        value: Any = self.settings
        for part in path:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                return False
        return True

    def locate(self, wrong: Wrong) -> Problem:
        """A rule's complaint with file, line and readable key."""
        file, path = self.origin(wrong.path)
        file = file or (self.files[0] if self.files else "")
        line = find_line(self._texts.get(file, ""), path)
        return Problem(file, line, self.key(wrong.path), wrong.found, wrong.expected)

    def place(self, path: Path) -> str:
        """`FILE:LINE` of a value that a file gives; only the file where the line could not be told."""
        file, inside = self.origin(path)
        line = find_line(self._texts.get(file, ""), inside)
        return f"{file}:{line}" if line else file

    def key(self, path: Path) -> str:
        """A path as a person names it: `class[8xH100].mounts[/scratch].type`."""
        text, value = "", self.settings
        for part in path:
            value = _step(value, part)
            if isinstance(part, int):
                text += f"[{_table_name(value) or f'#{part + 1}'}]"
            else:
                text += f".{part}" if text else part
        return text


def _step(value: Any, part: str | int) -> Any:
    try:
        return value[part]
    except (KeyError, IndexError, TypeError):
        return None


def _table_name(table: Any) -> str:
    """What tells one table of an array from the others."""
    names = (table.get(key) for key in ("name", "path", "check", "fault")) if isinstance(table, dict) else ()
    return next((name for name in names if isinstance(name, str)), "")


def read(places: Places) -> Sources:
    """Read every file there is; nothing is raised, see `Sources.problems`."""
    sources = Sources()
    return _add_files(_paths(places, sources), sources)


def read_file(path: str) -> Sources:
    """Read one file, wherever it lies, and no `conf.d`; nothing is raised, see `Sources.problems`."""
    return _add_files([path], Sources())


def _add_files(paths: list[str], sources: Sources) -> Sources:
    for path in paths:
        text = _read_text(path, sources.problems)
        values = None if text is None else parse(path, text, sources.problems)
        if text is not None and values is not None:
            sources.add(path, text, values)
    return sources


def _paths(places: Places, sources: Sources) -> list[str]:
    folder = FilePath(places.etc) / "conf.d"
    try:
        extra = sorted(
            str(path) for path in folder.iterdir() if path.suffix == ".toml" and path.name[0] != "."
        )
    except FileNotFoundError:
        extra = []
    except OSError as error:
        sources.problems.append(
            Problem(str(folder), None, "", str(error.strerror), "a readable folder of *.toml files")
        )
        extra = []
    return [path for path in (places.config,) if os.path.lexists(path)] + extra


def _read_text(path: str, problems: list[Problem]) -> str | None:
    try:
        with open(path, "rb", opener=files.regular_file) as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise ValueError(f"more than {LARGEST} bytes")
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problems.append(Problem(path, line, "", f"byte 0x{data[error.start]:02x}", "UTF-8 text"))
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or str(error)
        problems.append(Problem(path, None, "", found, "a readable TOML file"))
    return None


def parse(path: str, text: str, problems: list[Problem]) -> dict[str, Any] | None:
    """The values of a TOML text; None, and a problem with line and column, if it is not TOML."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        problems.append(Problem(path, None, "", "tables or lists nested too deeply", "TOML of a few levels"))
    except ValueError as error:
        match = _POSITION.fullmatch(str(error))
        message, line, column = match.groups() if match else (str(error), None, None)
        last = len(text.splitlines()) if match else 0
        place = int(line) if line else last or None, int(column) if column else None
        problems.append(Problem(path, place[0], "", f"a syntax error ({message})", "TOML", place[1]))
    return None
