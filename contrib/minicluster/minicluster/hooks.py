"""The hook scripts that slurm.conf names, in DIR/hooks.

slurmd starts hooks with an environment that it constructs itself (no PATH, nothing inherited), so each
script carries what it needs. A mark in the environment makes what a hook leaves behind known as ours.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from minicluster.errors import MiniclusterError
from minicluster.files import write_script
from minicluster.processes import MARK
from minicluster.slurm_conf import HOOK_FILES

if TYPE_CHECKING:
    from collections.abc import Mapping

SGUARD_SHIMS = {
    "Prolog": "prolog/sguard-prolog",
    "Epilog": "epilog/sguard-epilog",
    "HealthCheckProgram": "healthcheck/sguard-healthcheck",
}
COMMAND = Path(__file__).resolve().parent.parent / "bin/minicluster"


def plan(hooks: Mapping[str, str | Path] | str | Path | None) -> dict[str, str]:
    """slurm.conf key → the command line (a line of shell) that its script runs.

    A mapping names programs by slurm.conf key; a path is a slurm_guard checkout, whose shims get each
    node's folder as `--root`. Raises MiniclusterError for an unknown key or a checkout without shims.
    """
    if hooks is None:
        return {}
    if not isinstance(hooks, (str, Path)):
        unknown = sorted(set(hooks) - set(HOOK_FILES))
        if unknown:
            raise MiniclusterError(f"unknown hook {unknown[0]!r}; slurm.conf has: {', '.join(HOOK_FILES)}")
        return {key: f'exec {shlex.quote(str(program))} "$@"' for key, program in hooks.items()}
    checkout = Path(hooks).resolve()
    missing = [shim for shim in SGUARD_SHIMS.values() if not (checkout / shim).is_file()]
    if missing:
        raise MiniclusterError(f"{checkout} is no slurm_guard checkout: it has no {missing[0]}")
    return {key: _with_root(checkout / shim) for key, shim in SGUARD_SHIMS.items()}


def install(directory: Path, commands: Mapping[str, str]) -> None:
    """Write the hook scripts and the RebootProgram of the cluster in `directory`."""
    mark = f"{MARK}={shlex.quote(str(directory))}; export {MARK}"
    nodes = f"nodes={shlex.quote(str(directory / 'nodes'))}"
    for key, command in commands.items():
        user_hook = key in ("TaskProlog", "TaskEpilog")  # in the job's own environment: leave no mark there
        text = f"#!/bin/sh\n{'' if user_hook else mark}\n{nodes}\n{command}\n"
        write_script(directory / "hooks" / HOOK_FILES[key], text)
    reboot = shlex.join([sys.executable, str(COMMAND), "reboot", "--dir", str(directory), "--restart-slurmd"])
    write_script(
        directory / "hooks/reboot",
        (
            f"#!/bin/sh\n{mark}\n"
            "# slurmd's own environment, not a constructed one: MINICLUSTER_NODE is from there\n"
            f'exec setsid {reboot} "$MINICLUSTER_NODE" >/dev/null 2>&1 </dev/null &\n'
        ),
    )


def _with_root(shim: Path) -> str:
    return f'exec {shlex.quote(str(shim))} --root "$nodes/$SLURMD_NODENAME"'
