"""The programs that slurm.conf names for a hook: patterns expanded, in slurmd's own order."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from slurm_guard.doctor.subject import Subject

#: The setting of slurm.conf and the guard's own program, by hook.
SETTINGS = {"prolog": "Prolog", "epilog": "Epilog", "healthcheck": "HealthCheckProgram"}
_SCRIPT_HEAD = 1 << 16


class Program(NamedTuple):
    """One program of a hook: its path as read from here, where it is named, whether it runs the guard."""

    path: str
    where: str
    ours: bool


class Hook(NamedTuple):
    """Everything that slurmd runs for a hook, in its order; `lines` are the settings, with their places."""

    name: str
    lines: list[str]
    programs: list[Program]


def find(subject: Subject, hook: str) -> Hook:
    """The programs of `prolog`, `epilog` or `healthcheck`; none where slurm.conf names none."""
    settings = [one for one in subject.slurm.all(SETTINGS[hook]) if one.value] if subject.slurm else []
    found: list[Program] = []
    for one in settings:
        where = f"{one.file}:{one.line}"
        found += [Program(path, where, _is_ours(path, hook)) for path in _expand(subject, one.value)]
    return Hook(hook, [f"{one.value} ({one.file}:{one.line})" for one in settings], found)


def _expand(subject: Subject, value: str) -> list[str]:
    """The files of a value: a pattern's in reverse order of their names, as slurmd runs them.

    HealthCheckProgram may have arguments; only its first word is the program.
    """
    path = value.split(maxsplit=1)[0]
    if not path.startswith("/") and subject.slurm:  # configless Slurm keeps copies of such beside slurm.conf
        path = str(Path(subject.slurm.path).parent / path)
    if not glob.has_magic(path):
        return [subject.reach(path)]
    names = glob.glob(subject.places.below(path)) or glob.glob(path)  # noqa: PTH207 - absolute patterns
    return sorted(names, reverse=True)


def _is_ours(path: str, hook: str) -> bool:
    """True for the guard's own shim, a link to it, or a site's script that calls it."""
    name = f"sguard-{hook}"
    if Path(path).resolve().name == name:
        return True
    try:
        with Path(path).open("rb") as file:
            return name.encode() in file.read(_SCRIPT_HEAD)
    except (OSError, ValueError):
        return False
