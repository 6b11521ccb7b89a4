"""Nodes and collector together: real hooks, the real `sguard serve`, a real munged, one Slurm."""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import socket
import sqlite3
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.cluster.conftest import SGUARD, Guarded, guarded, soak

HOOKS = ("prolog", "epilog")

CONFIG = """\
cluster = "mini"
grace_s = 0

[slurm]
conf = "{conf}"
bin = "/usr/bin"

[nvml]
library = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"

[budget]
nodes = {budget}

[[class]]
name = "8xH100"
nodes = "n[1-{nodes}]"
gpus = 8

[[mode]]
mode = "enforce"

[collector]
url = "http://127.0.0.1:{port}"
listen = "127.0.0.1:{port}"
munge_socket = "{munge}"
jitter_s = 0.2

[collector.addresses]
"n[1-{nodes}]" = ["0.0.0.0/0"]
"""


class Head:
    """The admin host of a cluster: its root folder and its collector."""

    def __init__(self, cluster: Guarded) -> None:
        self.cluster = cluster
        self.root = cluster.directory / "head"
        self.process: subprocess.Popen[bytes] | None = None
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    def configure(self, budget: int = 2) -> str:
        """Write the configuration and compile it; the plan's hash. No node gets it from here."""
        layout = self.cluster.cluster.layout
        settings = {"conf": layout.conf_path, "munge": layout.munge_socket, "port": self.port}
        text = CONFIG.format(budget=budget, nodes=len(self.cluster.names), **settings)
        path = self.root / "etc/slurm-guard/slurm-guard.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.sguard("config", "apply")
        plan = json.loads((self.root / "var/lib/slurm-guard/plan.json").read_text())
        return str(plan["hash"])

    def sguard(self, *argv: str, code: int = 0) -> str:
        command = [str(SGUARD), *argv, "--root", str(self.root)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def start(self) -> None:
        """Start the collector, and wait until it takes connections."""
        command = [str(SGUARD), "serve", "--root", str(self.root)]
        with (self.cluster.directory / "serve.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.cluster.wait(self._listens, 30)

    def _listens(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.cluster.directory / "serve.log").read_text()
        with socket.socket() as attempt:
            return attempt.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(60)
            self.process = None

    def runs(self) -> list[tuple[int, str, str]]:
        """(job, hook, node) of every run of a job in the store."""
        path = self.root / "var/lib/slurm-guard/store.sqlite"
        if not path.exists():
            return []
        ask = "SELECT job_id, hook, name FROM runs JOIN nodes ON nodes.id = node_id WHERE job_id IS NOT NULL"
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30) as store:
            return sorted(store.execute(ask).fetchall())


@contextmanager
def head_and_nodes(nodes: int) -> Iterator[tuple[Head, Guarded]]:
    """A head with a collector that does not run yet; nodes that know its address and have no plan."""
    with guarded(nodes=nodes) as cluster:
        head = Head(cluster)
        settings = {"url": f"http://127.0.0.1:{head.port}", "jitter_s": 0.2}
        settings["munge_socket"] = str(cluster.cluster.layout.munge_socket)
        for name in cluster.names:
            (cluster.root(name) / "var/lib/slurm-guard/plan.json").unlink()
            path = cluster.root(name) / "etc/slurm-guard/node.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"collector": settings}))
        try:
            yield head, cluster
        finally:
            head.stop()
            cluster.wait(lambda: not any(shippers(cluster.root(name)) for name in cluster.names), 120)


def shippers(root: Path) -> list[int]:
    """The processes that hold a shipper's lock of a node."""
    found = []
    for name in ("ship-wait", "ship"):
        lock = root / f"run/slurm-guard/{name}.lock"
        if lock.exists():
            with lock.open("r+b") as file:
                question = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
                kind, _, _, _, pid = struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_GETLK, question))
            found += [pid] if kind != fcntl.F_UNLCK else []
    return found


def hash_of(root: Path) -> str:
    path = root / "var/lib/slurm-guard/plan.json"
    return str(json.loads(path.read_text())["hash"]) if path.exists() else ""


def both(jobs: list[int], head: Head) -> set[tuple[int, str]]:
    """(job, hook) that must be in the store and are not."""
    return {(job, hook) for job in jobs for hook in HOOKS} - {one[:2] for one in head.runs()}


def test_nodes_get_their_plan_and_give_their_records() -> None:
    with head_and_nodes(2) as (head, cluster):
        wanted = head.configure()
        head.start()
        jobs = [cluster.submit("-N2", script="srun true") for _ in range(2)]
        cluster.wait(lambda: not both(jobs, head), 60)
        cluster.wait(lambda: all(hash_of(cluster.root(name)) == wanted for name in cluster.names), 30)
        cluster.wait(lambda: not any(cluster.records(name) for name in cluster.names), 30)
        expected = {(job, hook, name) for job in jobs for hook in HOOKS for name in cluster.names}
        assert head.runs() == sorted(expected)
        changed = head.configure(budget=1)
        assert changed != wanted

        def all_have_it() -> bool:
            for name in cluster.names:
                cluster.healthcheck(name)
            return all(hash_of(cluster.root(name)) == changed for name in cluster.names)

        cluster.wait(all_have_it, 60)
        document = json.loads(head.sguard("job", str(jobs[0]), "--no-slurm", "--json"))
        assert document["runs"][0]["coverage"]["missing"] == []


def kill_something(draw: random.Random, head: Head, cluster: Guarded) -> None:
    """Kill -9 of the collector (and a new one), or of a shipper that waits or sends."""
    if draw.random() < 0.3:
        head.stop(signal.SIGKILL)
        time.sleep(draw.uniform(0, 0.3))
        head.start()
        return
    found = shippers(cluster.root(draw.choice(cluster.names)))
    if found:
        with suppress(ProcessLookupError):
            os.kill(draw.choice(found), signal.SIGKILL)


def end_pauses(cluster: Guarded) -> None:
    """As if the time had gone by that a shipper waits after a failure."""
    for name in cluster.names:
        (cluster.root(name) / "run/slurm-guard/ship.json").unlink(missing_ok=True)


@pytest.mark.timeout(600 if os.environ.get("SOAK") else 120)
def test_nothing_is_lost_or_doubled_whoever_is_killed() -> None:
    """A storm of short jobs while collector and shippers are killed at random moments."""
    draw = random.Random(11)
    with head_and_nodes(2) as (head, cluster):
        head.configure()
        head.start()
        jobs: list[int] = []
        for _ in range(soak(6, 100)):
            jobs += [cluster.submit(script="true") for _ in range(draw.randint(1, 3))]
            time.sleep(draw.uniform(0, 0.5))
            kill_something(draw, head, cluster)
            end_pauses(cluster)
        cluster.wait(lambda: not cluster.unfinished(jobs), 60 + len(jobs))

        def all_sent() -> bool:
            end_pauses(cluster)
            for name in cluster.names:
                cluster.healthcheck(name)
            return not both(jobs, head)

        cluster.wait(all_sent, 60)
        cluster.wait(lambda: not any(cluster.records(name) for name in cluster.names), 60)
        found = [one[:2] for one in head.runs()]
        assert len(found) == len(set(found)) == 2 * len(jobs)
        for name in cluster.names:
            assert not (cluster.root(name) / "var/lib/slurm-guard/set-aside").exists()
        assert set(cluster.cluster.states().values()) == {"idle"}
