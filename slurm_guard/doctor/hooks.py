"""The files that slurmd runs: there, executable, with an interpreter, and only root can change them.

A prolog that cannot be started drains the node, so one bad mode can take a whole partition out of service.
"""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_guard.doctor import programs, shims
from slurm_guard.doctor.advice import Advice, Topic
from slurm_guard.doctor.ownership import weak_spot
from slurm_guard.engine import chain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_guard.doctor.subject import Subject

TOPIC = Topic("hooks")
_OLDEST_PYTHON = (3, 9)
_PYTHON_DEADLINE_S = 5.0


def examine(subject: Subject) -> Iterator[Advice]:
    """All advice about the hooks' files."""
    for hook in programs.SETTINGS:
        for program in programs.find(subject, hook).programs:
            yield from _program(hook, program, Path(subject.places.root))
    yield from _chained(subject)


def _chained(subject: Subject) -> Iterator[Advice]:
    """The site's own health program, which ours runs after itself."""
    found = chain.wanted(subject.places, subject.plan)
    if not found:
        return
    where = subject.places.node_file if "chain" in subject.places.node else subject.places.plan
    problem = found.get("problem") or chain.unfit(found["argv"][0])
    if problem:
        remedy = "set `[chain] healthcheck` to the absolute path of a program that only root can change"
        yield TOPIC.bad(f"the site's own health program is not run: {problem}", where, remedy)
    else:
        yield TOPIC.good(f"after the healthcheck {found['argv'][0]} is run", where)


def _program(hook: str, program: programs.Program, root: Path) -> Iterator[Advice]:
    problem = _cannot_start(program.path)
    if problem:
        effect = "" if hook == "healthcheck" else " Slurm drains every node where it cannot start it."
        yield TOPIC.bad(
            f"{program.path} {problem}.{effect}",
            program.where,
            f"restore it, then `chmod 755 {program.path}`",
        )
        return
    weak = weak_spot(program.path)
    if weak:
        path, why = weak
        yield TOPIC.bad(
            f"{program.path} runs as root, but {path} {why}",
            path,
            f"`chown root {path}` and `chmod go-w {path}`",
        )
    if program.ours:
        yield from _interpreter(hook, program.path, root)
    if not weak:
        yield TOPIC.good(f"{hook}: {program.path} can be started, and only root can change it", program.where)


def _cannot_start(path: str) -> str:
    """Why slurmd could not start a program; empty if it could."""
    try:
        status = Path(path).stat()
    except OSError as error:
        return f"cannot be found ({error.strerror})"
    if not stat.S_ISREG(status.st_mode):
        return "is not a file"
    if not os.access(path, os.X_OK):
        return "is not executable"
    with Path(path).open("rb") as file:
        first = file.readline(256)
    if first.startswith(b"#!"):
        interpreter = os.fsdecode(first[2:].strip(b" \t\n").split(b" ")[0])
        if not os.access(interpreter, os.X_OK):
            return f"names the interpreter {interpreter!r}, which cannot be executed"
    return ""


def _interpreter(hook: str, path: str, root: Path) -> Iterator[Advice]:
    """The Python that our shim would take, in the shim's own order."""
    shim = Path(path).resolve()
    if shim.name != f"sguard-{hook}":
        return
    boot, python = shims.start_of(shim, root)
    version = _version(python)
    if version is None or version < _OLDEST_PYTHON:
        found = "no Python" if version is None else f"Python {'.'.join(map(str, version))}"
        yield TOPIC.bad(
            f"{found} for the {hook}: it lets every job through unchecked",
            str(python),
            "install Python 3.9 or later as /usr/bin/python3",
        )
    elif not boot.is_file():
        yield TOPIC.bad(
            f"the package beside {shim} is incomplete: the {hook} lets every job through unchecked",
            str(boot),
            "install slurm_guard again; where the hook is a copy in Slurm's cache, `sguard init --write` "
            "on the node makes the link that it needs",
        )


def _version(python: Path) -> tuple[int, ...] | None:
    """The interpreter's version, None if it does not answer."""
    try:
        answer = subprocess.run(
            [str(python), "-V"], capture_output=True, text=True, timeout=_PYTHON_DEADLINE_S, check=True
        )
        return tuple(int(part) for part in answer.stdout.split()[1].split(".")[:2])
    except (OSError, subprocess.SubprocessError, IndexError, ValueError):
        return None
