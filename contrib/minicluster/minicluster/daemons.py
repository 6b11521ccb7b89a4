"""The daemons of a cluster: started in the foreground, each with a record of who it is."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from minicluster import processes, requirements
from minicluster.errors import MiniclusterError, StartError
from minicluster.files import tail

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from minicluster.slurm_conf import Layout

# Ended in this order, whole groups at once: hanging mounts first, so that nothing waits for them.
FIRST_ENDED = ("hungfs", "clock")
LAST_ENDED = ("slurmctld", "slurmdbd", "mariadbd", "munged")
PATIENCE = 180.0  # seconds until daemons that run count as hung; one that ends is noticed at once
ROUNDS = 10  # of ending slurmd and what it started, while these still start something


class Daemons:
    """Starts and ends the processes of one cluster; knows them by the records in DIR/run."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.run = layout.directory / "run"
        self.log = layout.directory / "log"

    def record(self, name: str) -> Path:
        """Where the process of this name is written down."""
        return self.run / f"{name}.pid"

    def identity(self, name: str) -> processes.Identity | None:
        """The running process of this name, None if it doesn't run."""
        identity = processes.read_record(self.record(name))
        return identity if processes.is_alive(identity) else None

    def is_running(self, name: str) -> bool:
        """True while it runs (a paused one too)."""
        return self.identity(name) is not None

    def start(self, name: str, argv: list[str], environment: Mapping[str, str] | None = None) -> None:
        """Start a daemon unless it runs already."""
        if self.is_running(name):
            return
        processes.launch(
            self.record(name),
            argv,
            self.log / f"{name}.out",
            self.log,
            {"SLURM_CONF": str(self.layout.conf_path), **(environment or {})},
        )

    def start_munged(self) -> None:
        """With a key of its own."""
        key = self.layout.directory / "etc/munge.key"
        if not key.exists():
            key.touch(mode=0o600)
            key.write_bytes(os.urandom(1024))
        self.start(
            "munged",
            [
                requirements.program("munged"),
                "--foreground",
                "--force",
                f"--key-file={key}",
                f"--socket={self.layout.munge_socket}",
                f"--pid-file={self.run}/munged.daemon.pid",
                f"--log-file={self.log}/munged.log",
                f"--seed-file={self.run}/munge.seed",
            ],
        )

    def start_slurmctld(self, fresh: bool = False) -> None:
        """`fresh`: forget the state of an earlier run."""
        self.start("slurmctld", [requirements.program("slurmctld"), "-D", *(["-c"] if fresh else [])])

    def start_slurmd(self, node: str, rebooted: bool = False) -> None:
        """`rebooted`: slurmd says that the machine has just booted."""
        argv = [requirements.program("slurmd"), "-D", "-N", node, *(["-b"] if rebooted else [])]
        self.start(f"slurmd.{node}", argv, {"MINICLUSTER_NODE": node})

    def start_slurmdbd(self, mariadb_socket: Path) -> None:
        """In front of the MariaDB at this socket."""
        self.start(
            "slurmdbd", [requirements.program("slurmdbd"), "-D"], {"MYSQL_UNIX_PORT": str(mariadb_socket)}
        )

    def start_clock(self) -> None:
        """The process that lets the nodes' uptime go on."""
        script = Path(__file__).with_name("clock.py")
        self.start("clock", [sys.executable, "-I", "-S", str(script), str(self.layout.directory)])

    def wait_for(self, asked: str, ready: Callable[[], object], needed: Sequence[str] = ()) -> None:
        """Wait until `ready()` is true, which asks one daemon and needs others.

        Raises StartError, with the end of its log, if one ends before that, or if the asked one hangs.
        """
        deadline = time.monotonic() + PATIENCE
        # The daemons first: without slurmctld a client takes seconds to give up.
        while not (ended := [name for name in (*needed, asked) if not self.is_running(name)]):
            if ready():
                return
            if time.monotonic() > deadline:
                raise StartError(f"{asked} runs, but is not ready: {self._end_of_log(asked)}")
            time.sleep(0.02)
        raise StartError(f"{ended[0]} ended: {self._end_of_log(ended[0])}")

    def _end_of_log(self, name: str) -> str:
        return tail(self.log / f"{name}.log") or tail(self.log / f"{name}.out")

    def signal(self, name: str, number: int) -> None:
        """Raises MiniclusterError if the daemon doesn't run."""
        identity = self.identity(name)
        if identity is None or not processes.send(identity, number):
            raise MiniclusterError(f"{name} of {self.layout.directory} is not running")

    def pause(self, name: str) -> None:
        """Let a daemon hang: its port stays open, nothing is answered."""
        self.signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Let a paused daemon go on."""
        self.signal(name, signal.SIGCONT)

    def stop(self, name: str) -> None:
        """End one daemon; nothing happens if it doesn't run."""
        self._end([name])

    def running(self) -> list[str]:
        """The names of all daemons that run now."""
        return sorted(path.stem for path in self.run.glob("*.pid") if self.is_running(path.stem))

    def stop_all(self) -> None:
        """End everything that was started. Raises MiniclusterError naming what can't be ended."""
        left = [name for group in FIRST_ENDED for name in self._end_group(group)]
        left += self._end_slurmd_and_descendants()
        left += [name for group in LAST_ENDED for name in self._end_group(group)]
        if left:
            raise MiniclusterError(f"could not end {', '.join(left)} (state D?)")

    def _end_slurmd_and_descendants(self) -> list[str]:
        """Until none is left: a job's shell forks meanwhile, and a reboot under way starts slurmd again."""
        stuck: list[str] = []
        for _ in range(ROUNDS):
            stuck = self._end_group("slurmd")
            found = processes.leftovers(self.layout.conf_path, self.layout.directory)
            if not found:
                break
            stuck += [f"pid {identity.pid}" for identity in processes.end(found, patience=1.0)]
            if stuck:
                break
        return stuck

    def _end_group(self, group: str) -> list[str]:
        return self._end([name for name in self.running() if name.partition(".")[0] == group])

    def _end(self, names: list[str]) -> list[str]:
        identities = {name: found for name in names if (found := self.identity(name)) is not None}
        alive = processes.end(identities.values())
        for name in names:
            if identities.get(name) not in alive:
                self.record(name).unlink(missing_ok=True)
        return [name for name, identity in identities.items() if identity in alive]


def munge_answers(path: Path) -> bool:
    """True once a munged listens at this socket; its file is there a moment before."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True
