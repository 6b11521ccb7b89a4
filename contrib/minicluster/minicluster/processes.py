"""Daemons that outlive their starter, known by pid and start time, never by name alone.

`launch` has the new process write its own record before it becomes the daemon, so there is no moment
at which a daemon runs and no record of it is on disk: whoever finds the folder later can end it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from minicluster.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

# $1 record, $2 working folder, rest: the daemon. The shell keeps its pid and start time over exec.
LAUNCHER = """
read -r boot < /proc/sys/kernel/random/boot_id
read -r stat < /proc/$$/stat
printf '%s\\n%s\\n' "$stat" "$boot" > "$1.tmp" && mv "$1.tmp" "$1" && cd "$2" && shift 2 && exec "$@"
"""
CLEAN_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/"}


@dataclass(frozen=True)
class Identity:
    """One process of this boot: its pid and its start time in clock ticks."""

    pid: int
    start: int


def _stat_fields(stat: str) -> tuple[str, int]:
    """State letter and start time out of a line of /proc/PID/stat (the name may hold spaces and brackets)."""
    fields = stat.rpartition(")")[2].split()
    return fields[0], int(fields[19])


def identify(pid: int) -> Identity | None:
    """The identity of a process that runs now; None if it is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            state, start = _stat_fields(file.read())
    except (OSError, IndexError, ValueError):
        return None
    return None if state in "ZX" else Identity(pid, start)


def is_alive(identity: Identity | None) -> bool:
    """True while exactly this process runs (a recycled pid has another start time)."""
    return identity is not None and identify(identity.pid) == identity


def send(identity: Identity, number: int) -> bool:
    """Signal this process and no other. False if it is gone."""
    try:
        handle = os.pidfd_open(identity.pid)
    except OSError:
        return False
    try:
        if not is_alive(identity):  # checked after opening: the handle can't change its process any more
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def read_record(path: Path) -> Identity | None:
    """The process of a record; None if there is none, or if it is of another boot of the host."""
    try:
        stat, boot = path.read_text().splitlines()
        with open("/proc/sys/kernel/random/boot_id") as file:
            if file.read().strip() != boot.strip():
                return None
        return Identity(int(stat.split()[0]), _stat_fields(stat)[1])
    except (OSError, ValueError, IndexError):
        return None


def launch(
    record: Path, argv: list[str], log: Path, folder: Path, environment: Mapping[str, str] | None = None
) -> Identity:
    """Start a daemon in its own session, with output to `log`; wait only until its record is written.

    Raises StartError if it ends before that.
    """
    record.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        "/bin/sh",
        ["sh", "-c", LAUNCHER, "launcher", str(record), str(folder), *argv],
        {**CLEAN_ENVIRONMENT, **(environment or {})},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    deadline = time.monotonic() + 20
    while (identity := read_record(record)) is None:
        if identify(pid) is None or time.monotonic() > deadline:
            reap(pid)
            raise StartError(f"could not start {argv[0]}: see {log}")
        time.sleep(0.002)
    return identity


def reap(pid: int) -> None:
    """Take the exit status of our own child, so that it doesn't stay a zombie; others are init's."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def wait_gone(identities: Iterable[Identity], timeout: float) -> list[Identity]:
    """Wait until the processes are gone; returns those that still run after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    left = list(identities)
    while True:
        for identity in left:
            reap(identity.pid)
        left = [identity for identity in left if is_alive(identity)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.01)


def end(identities: Iterable[Identity], patience: float = 10.0) -> list[Identity]:
    """SIGTERM, wait up to `patience` seconds, SIGKILL; returns what even that did not end (state D)."""
    wanted = list(identities)
    for identity in wanted:
        send(identity, signal.SIGTERM)
        send(identity, signal.SIGCONT)  # a paused daemon acts on SIGTERM only once it runs again
    left = wait_gone(wanted, patience)
    for identity in left:
        send(identity, signal.SIGKILL)
    return wait_gone(left, 3.0)


def environment_of(pid: int) -> dict[str, str]:
    """The environment that a process was started with; empty if it is gone."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = file.read().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def _parent_and_name(pid: int) -> tuple[int, str] | None:
    try:
        with open(f"/proc/{pid}/stat") as file:
            text = file.read()
        head, _, rest = text.rpartition(")")
        return int(rest.split()[1]), head.partition("(")[2]
    except (OSError, ValueError, IndexError):
        return None


def leftovers(conf: Path, directory: Path) -> list[Identity]:
    """Job steps and hooks of the cluster with this slurm.conf that outlived their slurmd.

    Those are: a slurmstepd started with our SLURM_CONF; what slurmd or a step has started (it has a node's
    name in its environment as well); what our hook scripts have marked; and all descendants of these.
    A user's own shell or salloc with our SLURM_CONF is none of them.
    """
    table = {pid: found for pid in _all_pids() if (found := _parent_and_name(pid)) is not None}
    family = {pid for pid, (_, name) in table.items() if _is_ours(pid, name, conf, directory)}
    grown = True
    while grown:
        children = {pid for pid, (parent, _) in table.items() if parent in family} - family
        family |= children
        grown = bool(children)
    family.discard(os.getpid())
    return [identity for pid in sorted(family) if (identity := identify(pid)) is not None]


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _is_ours(pid: int, name: str, conf: Path, directory: Path) -> bool:
    environment = environment_of(pid)
    if environment.get("MINICLUSTER_HOOK") == str(directory):
        return True
    started_by_slurm = name == "slurmstepd" or "SLURMD_NODENAME" in environment
    return started_by_slurm and environment.get("SLURM_CONF") == str(conf)
