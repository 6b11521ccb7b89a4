"""Accounting on request: a private MariaDB on a unix socket, and slurmdbd in front of it."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from minicluster.errors import StartError
from minicluster.files import tail
from minicluster.processes import MARK
from minicluster.requirements import program

if TYPE_CHECKING:
    from pathlib import Path

    from minicluster.daemons import Daemons

MARIADB_OPTIONS = (
    "--user=root",
    "--skip-networking",
    "--skip-name-resolve",
    "--innodb-buffer-pool-size=128M",
    "--innodb-lock-wait-timeout=900",
    "--innodb-flush-log-at-trx-commit=0",
)


def start(daemons: Daemons) -> None:
    """Start MariaDB and slurmdbd, and register the cluster. Raises StartError."""
    socket = _start_mariadb(daemons)
    daemons.start_slurmdbd(socket)
    name = daemons.layout.name
    _wait(daemons, "slurmdbd", [program("sacctmgr"), "-n", "list", "cluster"])
    _wait(daemons, "slurmdbd", [program("sacctmgr"), "-i", "-Q", "add", "cluster", name])


def _start_mariadb(daemons: Daemons) -> Path:
    """A MariaDB with the empty database that slurmdbd expects; returns its socket."""
    folder = daemons.layout.directory / "db"
    socket = folder / "mariadb.sock"
    _create_database(daemons.layout.directory, daemons.log)
    places = [f"--datadir={folder}/data", f"--socket={socket}", f"--pid-file={folder}/mariadb.pid"]
    daemons.start("mariadbd", [program("mariadbd"), "--no-defaults", *places, *MARIADB_OPTIONS])
    admin = [program("mariadb-admin"), "--no-defaults", f"--socket={socket}", "--user=root"]
    _wait(daemons, "mariadbd", [*admin, "ping"])
    argv = [*admin, "create", "slurm_acct_db"]
    created = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    if created.returncode != 0 and "exists" not in created.stderr:
        raise StartError(f"mariadb: {created.stderr.strip()}")
    return socket


def _create_database(directory: Path, log: Path) -> None:
    """The mark lets `down` find the installer's children if we are killed meanwhile."""
    data = directory / "db/data"
    if (data / "mysql").is_dir():
        return
    data.parent.mkdir(mode=0o755, exist_ok=True)
    options = ("--no-defaults", "--user=root", f"--datadir={data}", "--skip-test-db", "--skip-name-resolve")
    with open(log / "mariadb-install.log", "wb") as output:
        done = subprocess.run(
            [program("mariadb-install-db"), *options, "--auth-root-authentication-method=normal"],
            env={**os.environ, MARK: str(directory)},
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            timeout=300,
            check=False,
        )
    if done.returncode != 0:
        raise StartError(f"mariadb-install-db failed: {tail(log / 'mariadb-install.log')}")


def _wait(daemons: Daemons, name: str, argv: list[str]) -> None:
    """Until a client succeeds."""
    environment = {"SLURM_CONF": str(daemons.layout.conf_path), "PATH": "/usr/bin:/bin"}

    def succeeds() -> bool:
        try:
            done = subprocess.run(argv, env=environment, capture_output=True, timeout=10, check=False)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    daemons.wait_for(name, succeeds)
