"""Where the shims are, and the stable names for them under /usr/lib/slurm-guard, for slurm.conf.

The snippet for TaskProlog has such a name too, though it is no hook: it runs as the job's user.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

import slurm_guard
from slurm_guard.core.context import HOOKS

FOLDER = "/usr/lib/slurm-guard"
#: Seconds after which a shim ends an engine that hangs, by hook: `limit` in the shims themselves.
LIMITS_S = {"prolog": 20, "epilog": 40, "healthcheck": 50}
TASK_PROLOG = "taskprolog"


class Link(NamedTuple):
    """A name to be made, and the shim it stands for."""

    path: str
    target: str


def stable_path(hook: str) -> str:
    """The path for slurm.conf; it stays the same when slurm_guard is installed elsewhere."""
    return f"{FOLDER}/{hook}/sguard-{hook}"


def source(hook: str) -> Path | None:
    """The shim of this installation: inside the package (a wheel) or beside it (a checkout)."""
    package = Path(slurm_guard.__file__).resolve().parent
    folders = (package / "shims", package.parent, package.parent / "contrib")
    candidates = (folder / hook / f"sguard-{hook}" for folder in folders)
    return next((path for path in candidates if path.is_file()), None)


class Start(NamedTuple):
    """What a shim starts, in its own order: the engine's file and the Python that runs it."""

    boot: Path
    python: Path


def start_of(shim: Path, root: Path = Path("/")) -> Start:
    """What the shim at its real place (links resolved) starts; the files need not be there.

    Beside a copy, as configless Slurm keeps one in its cache, there is none: the link below `root` counts.
    """
    link = root / stable_path(shim.name.removeprefix("sguard-")).lstrip("/")
    starts = [one for place in (shim, link.resolve()) for one in _starts_beside(place)]
    boot, python = next((one for one in starts if one.boot.exists()), starts[1])
    return Start(boot, python if os.access(python, os.X_OK) else Path("/usr/bin/python3"))


def _starts_beside(shim: Path) -> tuple[Start, Start]:
    """Of a checkout, then of an installed package."""
    home = shim.parent.parent
    return (
        Start(home / "slurm_guard/engine/boot.py", home / ".venv/bin/python"),
        Start(home.parent / "engine/boot.py", home / "../../../../../bin/python3"),
    )


def links(root: Path) -> list[Link]:
    """The names that `sguard init` makes below a root, for the shims that this installation has."""
    found = ((hook, source(hook)) for hook in (*HOOKS, TASK_PROLOG))
    return [Link(str(root / stable_path(hook).lstrip("/")), str(path)) for hook, path in found if path]


def is_for_everybody(path: Path) -> bool:
    """True if any user can run a file: it, and every folder above it, is open to others."""
    wanted = stat.S_IROTH | stat.S_IXOTH
    try:
        file = path.resolve(strict=True)
        return file.stat().st_mode & wanted == wanted and all(
            folder.stat().st_mode & stat.S_IXOTH for folder in file.parents
        )
    except OSError:
        return False


def problem_of(link: Link) -> str:
    """Why a link cannot be made; empty if it can, or is there already."""
    path = Path(link.path)
    if path.is_symlink():
        return "" if str(path.readlink()) == link.target else f"{link.path} points to {path.readlink()}"
    return f"{link.path} is there already and is no link" if path.exists() else ""


def make(link: Link) -> bool:
    """Make a link with its folders; False if it was there. Raises OSError."""
    path = Path(link.path)
    if path.is_symlink():
        return False
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    path.symlink_to(link.target)
    return True
