"""A real Slurm on this host: munged, slurmctld, one slurmd per node, on request slurmdbd."""

from __future__ import annotations

import json
import os
import pwd
import secrets
import shutil
import subprocess
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minicluster import accounting, hooks as hook_scripts, nvml_library, ports, requirements, slurm_conf
from minicluster.daemons import Daemons
from minicluster.errors import MiniclusterError, StartError
from minicluster.files import tail, write_atomically
from minicluster.mounting import mounted_at_or_below
from minicluster.node import Node
from minicluster.simulated import make_device, unmount_all

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

MAX_NODES = 64
START_PATIENCE = 60.0
FOLDERS = ("etc", "run", "log", "state", "spool", "hooks", "nodes", "machines")


class Cluster:
    """A cluster in a folder of its own. Use it as a context manager, or call `start` and `stop`.

    nodes            1 to 64, called n1, n2, ...
    slurm_user       the user that slurmctld runs as
    dbd              also slurmdbd and a private MariaDB, so that sacct works
    hooks            {"Prolog": program, ...}, or the path of a slurm_guard checkout, or None
    conf             further slurm.conf keys; they replace ours, "" removes one
    health_interval  HealthCheckInterval in seconds, with a HealthCheckProgram (10 if 0)
    simulate         False: plain nodes without a simulated machine
    """

    def __init__(
        self,
        directory: str | Path,
        nodes: int = 4,
        slurm_user: str = "root",
        dbd: bool = False,
        hooks: Mapping[str, str | Path] | str | Path | None = None,
        conf: Mapping[str, object] | None = None,
        health_interval: int = 0,
        simulate: bool = True,
    ) -> None:
        if not 1 <= nodes <= MAX_NODES:
            raise MiniclusterError(f"{nodes} nodes: a minicluster has 1 to {MAX_NODES}")
        self.directory = Path(directory).resolve()
        self.simulate = simulate
        self._hook_commands = hook_scripts.plan(hooks)
        self.layout = slurm_conf.Layout(
            directory=self.directory,
            name="mini",
            nodes=[f"n{number}" for number in range(1, nodes + 1)],
            port=0,
            slurm_user=slurm_user,
            dbd=dbd,
            hooks=tuple(self._hook_commands),
            health_interval=health_interval,
            conf={key: str(value) for key, value in (conf or {}).items()},
        )
        self.daemons = Daemons(self.layout)

    @classmethod
    def open(cls, directory: str | Path) -> Cluster:
        """The cluster that somebody started in this folder. Raises MiniclusterError if there is none."""
        path = Path(directory).resolve() / "cluster.json"
        try:
            state = json.loads(path.read_text())
            layout = slurm_conf.Layout(**{**state["layout"], "directory": path.parent})
        except FileNotFoundError:
            raise MiniclusterError(f"no cluster in {path.parent}: start one with `minicluster up {path.parent}`") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise MiniclusterError(f"{path} is damaged ({error}); remove the folder") from None
        cluster = cls(path.parent, nodes=len(layout.nodes), simulate=state["simulate"])
        cluster.layout = layout
        cluster.daemons = Daemons(layout)
        return cluster

    # -- start and stop ---------------------------------------------------------------------------

    def start(self) -> None:
        """Start everything and wait until every node is idle. Raises RequirementError or StartError."""
        requirements.check(self.layout.dbd)
        requirements.check_user(self.layout.slurm_user, self.directory)
        if self.is_up():
            raise MiniclusterError(f"the cluster in {self.directory} is up already")
        self._make_folders()
        self.layout.port = ports.reserve(self.directory, self.layout.ports)
        try:
            self._write_configuration()
            self._save("up")
            self._make_machines()
            self._start_daemons()
            self._wait_until_idle()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all daemons, job steps and hanging mounts, unmount everything. Running it again does no harm."""
        problem: MiniclusterError | None = None
        try:
            self.daemons.stop_all()
        except MiniclusterError as error:
            problem = error
        still_mounted = unmount_all(self.directory)
        if (self.directory / "cluster.json").exists():
            self._save("down")
        if self.layout.port:
            ports.release(self.directory, self.layout.port)
        if problem is not None:
            raise problem
        if still_mounted:
            raise MiniclusterError(f"could not unmount {', '.join(still_mounted)}")

    def is_up(self) -> bool:
        """True while any daemon of this folder runs."""
        return bool(self.daemons.running())

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- use ----------------------------------------------------------------------------------------

    @property
    def conf_path(self) -> Path:
        """The cluster's slurm.conf."""
        return self.layout.conf_path

    @property
    def env(self) -> dict[str, str]:
        """This process's environment, with SLURM_CONF set for Slurm's clients."""
        return {**os.environ, "SLURM_CONF": str(self.conf_path)}

    @property
    def nodes(self) -> list[Node]:
        """All nodes, in order."""
        return [self.node(name) for name in self.layout.nodes]

    def node(self, name: str) -> Node:
        """One node. Raises MiniclusterError for an unknown name."""
        if name not in self.layout.nodes:
            raise MiniclusterError(f"no node {name!r}; there are: {', '.join(self.layout.nodes)}")
        return Node(name, self.directory, self.daemons)

    def run(
        self, argv: Sequence[str | Path], timeout: float = 30.0, check: bool = True, user: str | None = None,
        input: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Slurm's clients (or any program) with this cluster's SLURM_CONF.

        Raises MiniclusterError, with what it wrote to stderr, if it fails (unless `check` is False) or
        takes longer than `timeout` seconds.
        """
        words = [str(word) for word in argv]
        try:
            done = subprocess.run(words, env=self.env, user=user, input=input, capture_output=True, text=True,
                                  timeout=timeout, check=False, **({} if input else {"stdin": subprocess.DEVNULL}))
        except subprocess.TimeoutExpired:
            raise MiniclusterError(f"`{' '.join(words)}` took longer than {timeout:g} s") from None
        if check and done.returncode != 0:
            raise MiniclusterError(f"`{' '.join(words)}` failed with {done.returncode}: {done.stderr.strip()}")
        return done

    def wait(self, predicate: Callable[[], Any], timeout: float = 30.0, interval: float = 0.05) -> Any:
        """Call `predicate` until it answers something true, and return that. Raises MiniclusterError."""
        deadline = time.monotonic() + timeout
        while not (answer := predicate()):
            if time.monotonic() > deadline:
                raise MiniclusterError(f"waited {timeout:g} s in vain; last answer: {answer!r}")
            time.sleep(interval)
        return answer

    def states(self) -> dict[str, str]:
        """Node → state as sinfo writes it (`idle`, `drained`, ...); empty while slurmctld doesn't answer."""
        done = self.run(["sinfo", "-h", "-N", "-o", "%N %T"], timeout=15, check=False)
        return dict(line.split() for line in done.stdout.splitlines()) if done.returncode == 0 else {}

    def stop_controller(self) -> None:
        """End slurmctld; its state stays."""
        self.daemons.stop("slurmctld")

    def start_controller(self) -> None:
        """Start slurmctld again, with the state it had; returns when it answers."""
        self.daemons.start_slurmctld()
        self.wait(self.states, timeout=START_PATIENCE)

    def pause_controller(self) -> None:
        """Let slurmctld hang: connections are accepted, nothing is answered."""
        self.daemons.pause("slurmctld")

    def resume_controller(self) -> None:
        """End the hang."""
        self.daemons.resume("slurmctld")

    # -- inside ---------------------------------------------------------------------------------------

    def _make_folders(self) -> None:
        """Fresh folders; what an earlier cluster left behind goes, but never through a mount."""
        unmount_all(self.directory)
        if mounted_at_or_below(self.directory):
            raise StartError(f"{self.directory} or something below it is mounted and can't be unmounted")
        if self.directory.exists() and any(self.directory.iterdir()) and not (self.directory / "cluster.json").exists():
            raise MiniclusterError(f"{self.directory} is not empty and holds no cluster: choose another folder")
        for name in (*FOLDERS, "db"):
            shutil.rmtree(self.directory / name, ignore_errors=True)
        for name in FOLDERS:
            (self.directory / name).mkdir(parents=True)
        uid = pwd.getpwnam(self.layout.slurm_user).pw_uid
        for name in ("state", "log", "run/slurmctld"):
            (self.directory / name).mkdir(exist_ok=True)
            os.chown(self.directory / name, uid, -1)

    def _write_configuration(self) -> None:
        etc = self.directory / "etc"
        write_atomically(self.conf_path, slurm_conf.slurm_conf(self.layout))
        write_atomically(etc / "gres.conf", slurm_conf.gres_conf(self.layout))
        version = self.run([requirements.program("slurmd"), "-V"]).stdout.split()[-1]
        if tuple(int(part) for part in version.split(".")[:2]) >= (23, 11):  # older ones don't know the key
            write_atomically(etc / "cgroup.conf", "CgroupPlugin=disabled\n")
        if self.layout.dbd:
            accounting.write_conf(self.daemons, pwd.getpwnam(self.layout.slurm_user).pw_uid)
        hook_scripts.install(self.directory, self._hook_commands)

    def _make_machines(self) -> None:
        seed = secrets.token_hex(8)
        library = nvml_library.build() if self.simulate else None
        for node in self.nodes:
            (self.directory / "spool" / node.name).mkdir()
            if self.simulate:
                node.machine.create(seed, library)
                continue
            for index in range(slurm_conf.GPUS):
                make_device(node.root / f"dev/nvidia{index}")

    def _start_daemons(self) -> None:
        self.daemons.start_munged()
        self.wait(self.layout.munge_socket.exists, START_PATIENCE, interval=0.01)
        if self.layout.dbd:
            accounting.start(self.daemons)
        if self.simulate:
            self.daemons.start_clock()
        self.daemons.start_slurmctld(fresh=True)
        for name in self.layout.nodes:
            self.daemons.start_slurmd(name)

    def _wait_until_idle(self) -> None:
        deadline = time.monotonic() + START_PATIENCE
        while set((states := self.states()).values()) != {"idle"}:
            stopped = [name for name in self._expected_daemons() if not self.daemons.is_running(name)]
            if stopped or time.monotonic() > deadline:
                name = stopped[0] if stopped else "slurmctld"
                text = tail(self.directory / f"log/{name}.log") or tail(self.directory / f"log/{name}.out")
                what = "ended" if stopped else f"runs, but the nodes are {states}"
                raise StartError(f"{name} {what}: {text}")
            time.sleep(0.05)

    def _expected_daemons(self) -> list[str]:
        return ["munged", "slurmctld", *(f"slurmd.{name}" for name in self.layout.nodes)]

    def _save(self, state: str) -> None:
        layout = {**asdict(self.layout), "directory": str(self.directory)}
        text = json.dumps({"state": state, "port": self.layout.port, "simulate": self.simulate, "layout": layout}, indent=1)
        write_atomically(self.directory / "cluster.json", text)
