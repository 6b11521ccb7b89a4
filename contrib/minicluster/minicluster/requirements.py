"""What the host must have, said in one line that can be acted on."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
from typing import TYPE_CHECKING

from minicluster.errors import RequirementError

if TYPE_CHECKING:
    from pathlib import Path

SEARCH_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
SLURM_PROGRAMS = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "scontrol": "slurm-client"}
ACCOUNTING_PROGRAMS = {
    "slurmdbd": "slurmdbd",
    "mariadbd": "mariadb-server",
    "mariadb-install-db": "mariadb-server",
    "mariadb-admin": "mariadb-client",
}


def program(name: str) -> str:
    """The absolute path of a daemon or client. Raises RequirementError if it isn't installed."""
    found = shutil.which(name, path=SEARCH_PATH)
    if found is None:
        package = {**SLURM_PROGRAMS, **ACCOUNTING_PROGRAMS}.get(name, "slurm-client")
        raise RequirementError(
            f"{name} is not installed; run: apt-get install -y --no-install-recommends {package}"
        )
    return found


def check(*, dbd: bool) -> None:
    """Raise RequirementError unless this host can run a cluster."""
    if os.geteuid() != 0:
        raise RequirementError("a minicluster needs root (slurmd, mounts, device files); run it with sudo")
    wanted = {**SLURM_PROGRAMS, **(ACCOUNTING_PROGRAMS if dbd else {})}
    missing = sorted(
        {package for name, package in wanted.items() if shutil.which(name, path=SEARCH_PATH) is None}
    )
    if missing:
        packages = " ".join([*missing, "slurm-wlm-basic-plugins"])
        raise RequirementError(
            f"missing Debian packages; run: apt-get install -y --no-install-recommends {packages}"
        )


def check_user(user: str, directory: Path) -> None:
    """Raise RequirementError unless `user` exists and may enter every folder above `directory`."""
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise RequirementError(f"there is no user {user!r}; create it: useradd --system {user}") from None
    if entry.pw_uid == 0:
        return
    for folder in directory.resolve().parents:
        found = folder.stat()
        allowed = found.st_mode & stat.S_IXOTH or (
            found.st_uid == entry.pw_uid and found.st_mode & stat.S_IXUSR
        )
        if not allowed:
            raise RequirementError(
                f"user {user} can't enter {folder}, and slurmctld runs as {user}; run: chmod o+x {folder}"
            )
