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
LAUNCH_PATIENCE = 60.0  # seconds for a shell to write one line
KILL_PATIENCE = 10.0  # seconds after which a process that got SIGKILL counts as stuck in the kernel
# Python ignores SIGPIPE, a background job of a shell SIGINT: daemons and their jobs must not inherit that.
DEFAULT_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGTERM, signal.SIGXFSZ)
MARK = "MINICLUSTER_HOOK"  # environment variable: the cluster's folder, in all that must not outlive it


@dataclass(frozen=True)
class Identity:
    """One process of this boot: its pid and its start time in clock ticks."""

    pid: int
    start: int


@dataclass(frozen=True)
class Entry:
    """What one line of /proc/PID/stat says."""

    identity: Identity
    name: str
    state: str
    parent: int


def _parse(stat: str) -> Entry:
    """Raises ValueError or IndexError. The name may hold spaces and brackets."""
    head, _, rest = stat.rpartition(")")
    pid, _, name = head.partition(" (")
    fields = rest.split()
    return Entry(Identity(int(pid), int(fields[19])), name, fields[0], int(fields[1]))


def _look(pid: int) -> Entry | None:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return _parse(file.read())
    except (OSError, IndexError, ValueError):
        return None


def identify(pid: int) -> Identity | None:
    """The identity of a process that runs now; None if it is gone or a zombie."""
    entry = _look(pid)
    return None if entry is None or entry.state in "ZX" else entry.identity


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
        return _parse(stat).identity
    except (OSError, ValueError, IndexError):
        return None


def launch(
    record: Path, argv: list[str], log: Path, folder: Path, environment: Mapping[str, str] | None = None
) -> Identity:
    """Start a daemon in its own session, with output to `log`; wait only until its record is written.

    Raises StartError if it ends before that, or hangs. Whoever interrupts the wait leaves nothing running.
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
        setsigdef=DEFAULT_SIGNALS,
    )
    try:
        return _wait_for_record(record, pid, f"could not start {argv[0]}: see {log}")
    except BaseException:
        _kill_child(pid)
        raise


def _wait_for_record(record: Path, pid: int, problem: str) -> Identity:
    deadline = time.monotonic() + LAUNCH_PATIENCE
    while (identity := read_record(record)) is None:
        if identify(pid) is None or time.monotonic() > deadline:
            raise StartError(problem)
        time.sleep(0.002)
    return identity


def _kill_child(pid: int) -> None:
    """End a child of ours that was not waited for yet: nobody else can have its pid."""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


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
    return wait_gone(left, KILL_PATIENCE)


def environment_of(pid: int) -> dict[str, str]:
    """The environment that a process was started with; empty if it is gone."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = file.read().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def leftovers(conf: Path, directory: Path) -> list[Identity]:
    """Job steps and hooks of the cluster with this slurm.conf that outlived their slurmd.

    Those are: a slurmstepd started with our SLURM_CONF; what slurmd or a step has started (it has a node's
    name in its environment as well); what carries our mark (MARK); and all descendants of these.
    A user's own shell or salloc with our SLURM_CONF is none of them.
    """
    entries = [entry for pid in _all_pids() if (entry := _look(pid)) is not None and entry.state not in "ZX"]
    family = {entry.identity.pid for entry in entries if _is_ours(entry, conf, directory)}
    grown = True
    while grown:
        children = {entry.identity.pid for entry in entries if entry.parent in family} - family
        family |= children
        grown = bool(children)
    family.discard(os.getpid())
    # As they were before their environment was read: nothing is sent to who has the pid by now.
    return [entry.identity for entry in entries if entry.identity.pid in family]


def _all_pids() -> list[int]:
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())


def _is_ours(entry: Entry, conf: Path, directory: Path) -> bool:
    environment = environment_of(entry.identity.pid)
    if environment.get(MARK) == str(directory):
        return True
    started_by_slurm = entry.name == "slurmstepd" or "SLURMD_NODENAME" in environment
    return started_by_slurm and environment.get("SLURM_CONF") == str(conf)
