"""A collector as a process of its own below a folder, and nodes that ship to it."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from slurm_guard.core import plan as plans
from slurm_guard.core.paths import Places
from slurm_guard.engine import destination, ship, spool
from slurm_guard.engine.ship import Shipped
from tests.unit.store.factory import action, finding, run

CHECKOUT = Path(__file__).resolve().parents[2]
ADDRESSES = '[collector.addresses]\n"n[1-64]" = ["127.0.0.0/8"]'


def free_port() -> int:
    """A port of loopback that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Head:
    """The admin host: configuration and plan of a cluster `lab` below a folder, and its collector."""

    def __init__(self, root: Path, munge_socket: str, more: str = "", addresses: str = ADDRESSES) -> None:
        self.root = root
        self.places = Places(str(root))
        self.port = free_port()
        self.process: subprocess.Popen[str] | None = None
        (root / "etc/slurm-guard").mkdir(parents=True, exist_ok=True)
        (root / "etc/slurm-guard/slurm-guard.toml").write_text(
            f'cluster = "lab"\n[collector]\nurl = "http://127.0.0.1:{self.port}"\n'
            f'listen = "127.0.0.1:{self.port}"\nmunge_socket = "{munge_socket}"\njitter_s = 0\n{more}\n'
            f"{addresses}\n"
        )
        self.sguard("config", "apply")

    def sguard(self, *arguments: str) -> str:
        """What a command says."""
        argv = [sys.executable, "-m", "slurm_guard.cli.main", *arguments, "--root", str(self.root)]
        return subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a collector; it listens when this returns. What it says of refusals is in `serve.log`."""
        argv = [sys.executable, "-m", "slurm_guard.cli.main", "serve", "--root", str(self.root), *arguments]
        with (self.root / "serve.log").open("a") as log:
            made = subprocess.Popen(argv, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=log, text=True)
        assert made.stdout is not None
        line = made.stdout.readline()
        assert line.startswith("listening on"), (self.root / "serve.log").read_text()
        self.process = made
        return made

    def end(self, number: int = signal.SIGTERM) -> int:
        """End the collector; its exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        status = self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
        return status

    def health(self) -> dict[str, Any]:
        """What it says of itself."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/health", timeout=20) as reply:
            found: dict[str, Any] = json.loads(reply.read())
            return found

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Of the store, read beside the collector."""
        with sqlite3.connect(f"file:{self.places.database}?mode=ro", uri=True) as connection:
            return connection.execute(sql).fetchall()


class Node:
    """A node with a spool that sends to a collector."""

    def __init__(self, head: Head, folder: Path, name: str) -> None:
        self.name = name
        self.places = Places(str(folder / name))
        self.plan = plans.load(head.places.plan, name)
        to = destination.destination(self.places, self.plan)
        assert to is not None
        self.to = to
        self.written: list[str] = []

    def write(self, count: int = 1, padding: int = 0) -> None:
        """Records of hooks, with findings and actions."""
        for _ in range(count):
            one = finding("gpu_count.lost", device="gpu3", message="x" * padding)
            done = [action("drain", 0, "gpu_count.lost", "gpu3", "observed")]
            made = run("healthcheck", self.name, 0, one, actions=done)
            made.update(cluster="lab", run_id=os.urandom(16).hex())
            spool.write(self.places, made, self.plan.spool)
            self.written.append(made["run_id"])

    def ship(self) -> Shipped:
        """Send what waits."""
        return ship.ship(self.places, self.plan, self.to, 30.0)
