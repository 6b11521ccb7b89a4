"""Reads a site's slurm.conf: keys in any case, comments, continued lines, Include with globs.

Only what the guard asks about is interpreted; everything else passes through as text. Slurm reads node and
partition lines (`NodeName=… Gres=…`) as several keys on one line, and so does this.
"""

from __future__ import annotations

import glob
import re
from pathlib import Path
from typing import NamedTuple

from slurm_guard.engine import files

LARGEST = 16 << 20
_DEEPEST = 16
_MOST_FILES = 1000
_INCLUDE = re.compile(r"include\s+(\S.*)", re.IGNORECASE)
_PAIR = re.compile(r"""([A-Za-z][\w+-]*)\s*\+?=\s*("[^"]*"|\S*)""")


class Setting(NamedTuple):
    """One `key=value`, where it stands, and all keys of its line (lower case) for node lines."""

    key: str
    value: str
    file: str
    line: int
    fields: dict[str, str]


class SlurmConf:
    """The settings of slurm.conf and all that it includes, in Slurm's order.

    `problems` says which files could not be read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.files: list[str] = []
        self.settings: list[Setting] = []
        self.problems: list[str] = []

    def all(self, key: str) -> list[Setting]:
        """Every setting of a key, in order."""
        wanted = key.lower()
        return [one for one in self.settings if one.key == wanted]

    def last(self, key: str) -> str | None:
        """The value that counts for a key that may stand once: the last one."""
        found = self.all(key)
        return found[-1].value if found else None

    def place(self, key: str) -> str:
        """`FILE:LINE` of the setting that counts for a key; the file alone where it is not set."""
        found = self.all(key)
        return f"{found[-1].file}:{found[-1].line}" if found else self.path

    def words(self, key: str) -> list[str]:
        """A comma-separated value, in lower case, of every line of the key."""
        return [
            word.strip().lower() for one in self.all(key) for word in one.value.split(",") if word.strip()
        ]

    def number(self, key: str) -> float | None:
        """A number of seconds; None if it is absent, `INFINITE` or not a number."""
        try:
            return float(self.last(key) or "")
        except ValueError:
            return None


def read(path: str) -> SlurmConf:
    """Read a slurm.conf; nothing is raised, see `problems`."""
    found = SlurmConf(path)
    _read_file(found, path, 0)
    return found


def _read_file(found: SlurmConf, path: str, depth: int) -> None:
    if depth > _DEEPEST or len(found.files) >= _MOST_FILES:
        found.problems.append(f"{path}: Include goes in circles, or has more than {_MOST_FILES} files")
        return
    try:
        with open(path, "rb", opener=files.regular_file) as file:
            text = file.read(LARGEST).decode("utf-8", errors="replace")
    except (OSError, ValueError) as error:
        found.problems.append(f"{path}: {getattr(error, 'strerror', None) or error}")
        return
    found.files.append(path)
    for number, line in _logical_lines(text):
        include = _INCLUDE.fullmatch(line)
        if include:
            _include(found, include[1].strip(), path, depth)
        else:
            _take_line(found, line, path, number)


def _logical_lines(text: str) -> list[tuple[int, str]]:
    r"""Lines with their numbers: comments dropped (`\#` is a plain #), continued lines joined."""
    joined: list[tuple[int, str]] = []
    started, held = 0, ""
    for number, raw in enumerate(text.splitlines(), start=1):
        line = re.sub(r"(?<!\\)#.*", "", raw).replace("\\#", "#").rstrip()
        started = started or number
        if line.endswith("\\"):
            held += line[:-1]
            continue
        joined.append((started, (held + line).strip()))
        started, held = 0, ""
    if held.strip():
        joined.append((started, held.strip()))
    return [(number, line) for number, line in joined if line]


def _include(found: SlurmConf, pattern: str, path: str, depth: int) -> None:
    """Files of an Include line: relative to this file's folder, `%c` is the cluster's name."""
    pattern = pattern.strip('"').replace("%c", found.last("ClusterName") or "%c")
    whole = str(Path(path).parent / pattern)
    names = [whole]
    if glob.has_magic(whole):
        names = sorted(glob.glob(whole))  # noqa: PTH207 - Path.glob takes no absolute patterns
    for name in names:
        _read_file(found, name, depth + 1)


def _take_line(found: SlurmConf, line: str, path: str, number: int) -> None:
    pairs = [(key.lower(), value.strip('"')) for key, value in _PAIR.findall(line)]
    fields = dict(pairs)
    kept = pairs[:1] if pairs and pairs[0][0] in _LINES_OF_FIELDS else pairs
    found.settings += [Setting(key, value, path, number, fields) for key, value in kept]


#: These open a line whose other keys are their fields, not settings of their own.
_LINES_OF_FIELDS = frozenset(
    {"nodename", "nodeset", "partitionname", "downnodes", "frontendname", "switchname"}
)
