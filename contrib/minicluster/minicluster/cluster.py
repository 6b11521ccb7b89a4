"""A real Slurm on this host: munged, slurmctld, one slurmd per node, on request slurmdbd."""

from __future__ import annotations

import json
import os
import subprocess
import time
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minicluster import accounting, hooks, ports, preparation, requirements
from minicluster.daemons import Daemons, munge_answers
from minicluster.errors import MiniclusterError
from minicluster.files import locked, write_atomically
from minicluster.mounting import unmount_below
from minicluster.node import Node
from minicluster.slurm_conf import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

MAX_NODES = 64


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
        self._hook_commands = _hook_commands(hooks)
        self.layout = Layout(
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
            saved = json.loads(path.read_text())
            layout = Layout(**{**saved["layout"], "directory": path.parent})
            cluster = cls(path.parent, nodes=len(layout.nodes), simulate=saved["simulate"])
        except FileNotFoundError:
            raise MiniclusterError(
                f"no cluster in {path.parent}: start one with `minicluster up {path.parent}`"
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise MiniclusterError(f"{path} is damaged ({error}); remove the folder") from None
        cluster.layout = layout
        cluster.daemons = Daemons(layout)
        return cluster

    # Start and stop.

    def start(self) -> None:
        """Start everything and wait until every node is idle.

        A start that was cut short earlier is cleaned up first. Raises RequirementError or StartError.
        """
        requirements.check(dbd=self.layout.dbd)
        requirements.check_user(self.layout.slurm_user, self.directory)
        preparation.check_folder(self.directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        with self._starting():
            if self.is_up():
                raise MiniclusterError(f"the cluster in {self.directory} is up already")
            if (self.directory / "cluster.json").exists():
                Cluster.open(self.directory).stop()
            ports.reserve(self.directory, self.layout.ports, self._claim)
            try:
                self._bring_up()
            except BaseException:
                self.stop()
                raise
            self._save("up")

    def stop(self) -> None:
        """End daemons, job steps and hanging mounts, unmount everything; doing it again does no harm."""
        problems = []
        try:
            self.daemons.stop_all()
        except MiniclusterError as error:
            problems.append(str(error))
        problems += [f"could not unmount {path}" for path in unmount_below(self.directory)]
        if (self.directory / "cluster.json").exists():
            self._save("down")
        if self.layout.port:
            ports.release(self.directory, self.layout.port)
        if problems:
            raise MiniclusterError("; ".join(problems))

    def is_up(self) -> bool:
        """True once a start has been completed, while any daemon of the folder runs."""
        return self._saved_state() == "up" and bool(self.daemons.running())

    def is_down(self) -> bool:
        """True once it has been stopped, or if it never was started."""
        return self._saved_state() in ("", "down")

    def _saved_state(self) -> str:
        try:
            return str(json.loads((self.directory / "cluster.json").read_text())["state"])
        except (OSError, ValueError, KeyError):
            return ""

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # Use.

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
        self,
        argv: Sequence[str | Path],
        timeout: float = 30.0,
        check: bool = True,
        user: str | None = None,
        text: str = "",
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Slurm's clients (or any program) with this cluster's SLURM_CONF; `text` is its stdin.

        Raises MiniclusterError, with what it wrote to stderr, if it fails (unless `check` is False) or
        takes longer than `timeout` seconds.
        """
        words = [str(word) for word in argv]
        command = f"`{' '.join(words)}`"
        try:
            done = _run(words, env=self.env, user=user, input=text, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise MiniclusterError(f"{command} took longer than {timeout:g} s") from None
        except OSError as error:
            raise MiniclusterError(f"{command} can't be run: {error}") from None
        if check and done.returncode != 0:
            raise MiniclusterError(f"{command} failed with {done.returncode}: {done.stderr.strip()}")
        return done

    def wait(self, predicate: Callable[[], Any], timeout: float = 30.0, interval: float = 0.05) -> Any:
        """Call `predicate` until it answers something true, and return that.

        Raises MiniclusterError after `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while not (answer := predicate()):
            if time.monotonic() > deadline:
                raise MiniclusterError(f"waited {timeout:g} s in vain; last answer: {answer!r}")
            time.sleep(interval)
        return answer

    def states(self) -> dict[str, str]:
        """Node → state as sinfo writes it (`idle`, `drained`, ...); empty while slurmctld doesn't answer."""
        try:
            done = self.run(["sinfo", "-h", "-N", "-o", "%N %T"], timeout=15, check=False)
        except MiniclusterError:
            return {}
        return dict(line.split() for line in done.stdout.splitlines()) if done.returncode == 0 else {}

    def stop_controller(self) -> None:
        """End slurmctld; its state stays."""
        self.daemons.stop("slurmctld")

    def start_controller(self) -> None:
        """Start slurmctld again, with the state it had; returns when it answers."""
        self.daemons.start_slurmctld()
        self.daemons.wait_for("slurmctld", self.states)

    def pause_controller(self) -> None:
        """Let slurmctld hang: connections are accepted, nothing is answered."""
        self.daemons.pause("slurmctld")

    def resume_controller(self) -> None:
        """End the hang."""
        self.daemons.resume("slurmctld")

    # Inside.

    @contextmanager
    def _starting(self) -> Iterator[None]:
        """At most one start per folder at a time."""
        with locked(self.directory / "cluster.lock", wait=False) as is_ours:
            if not is_ours:
                raise MiniclusterError(f"another process is starting the cluster in {self.directory}")
            yield

    def _claim(self, port: int) -> None:
        self.layout.port = port
        self._save("starting")

    def _bring_up(self) -> None:
        preparation.make_folders(self.layout)
        preparation.write_configuration(self.layout, self._hook_commands)
        preparation.make_machines(self.layout, simulate=self.simulate)
        self.daemons.start_munged()
        self.daemons.wait_for("munged", partial(munge_answers, self.layout.munge_socket))
        if self.layout.dbd:
            accounting.start(self.daemons)
        if self.simulate:
            self.daemons.start_clock()
        self.daemons.start_slurmctld(fresh=True)
        for name in self.layout.nodes:
            self.daemons.start_slurmd(name)
        self._wait_until_idle()

    def _wait_until_idle(self) -> None:
        needed = ["munged", "slurmctld", *(f"slurmd.{name}" for name in self.layout.nodes)]
        self.daemons.wait_for("slurmctld", self._is_idle, needed)

    def _is_idle(self) -> bool:
        """True once every node of ours is; further ones that `conf` names may have no slurmd."""
        states = self.states()
        return all(states.get(name) == "idle" for name in self.layout.nodes)

    def _save(self, state: str) -> None:
        saved = {
            "state": state,
            "port": self.layout.port,
            "simulate": self.simulate,
            "layout": {**asdict(self.layout), "directory": str(self.directory)},
        }
        write_atomically(self.directory / "cluster.json", json.dumps(saved, indent=1))


_run = partial(subprocess.run, capture_output=True, text=True, check=False)


def _hook_commands(given: Mapping[str, str | Path] | str | Path | None) -> dict[str, str]:
    return hooks.plan(given)  # in the class, `hooks` is the argument
