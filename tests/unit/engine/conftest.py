"""A node's root folder with a system log of its own, and the real shims run on it."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.engine.collector import Collector
from tests.unit.engine.site import Site

CHECKOUT = Path(__file__).resolve().parents[3]


class NodeRoot:
    """A node's root folder: runs hooks on it, reads its spool and its system log."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log: list[str] = []
        (root / "dev").mkdir()
        boot = root / "proc/sys/kernel/random"
        boot.mkdir(parents=True)
        (boot / "boot_id").write_text("5e0c1b5e-0000-4000-8000-00000000000a\n")
        (root / "proc/uptime").write_text("86400.00 600000.00\n")
        (root / "dev/kmsg").write_text("6,1,100,-;Linux version 6.1.0\n")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(root / "dev/log"))
        self._socket.settimeout(0.05)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        while not self._stop.is_set():
            try:
                self.log.append(self._socket.recv(4096).decode())
            except TimeoutError:
                continue

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._socket.close()

    def run(
        self, hook: str, job: int | None = None, shim: Path | None = None, timeout: float = 60, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a hook as slurmd does: hardly any environment, no stdin, one pipe for both outputs."""
        found = {"SLURMD_NODENAME": "n1", **env}
        if job is not None:
            found.update(SLURM_JOB_ID=str(job), SLURM_JOB_UID="1204", SLURM_JOB_USER="mira")
        return subprocess.run(
            [str(shim or CHECKOUT / hook / f"sguard-{hook}"), "--root", str(self.root)],
            env=found,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )

    @property
    def spool(self) -> Path:
        return self.root / "var/lib/slurm-guard/spool"

    def records(self) -> list[dict[str, Any]]:
        """Every record in the spool, oldest first; a torn one fails the test."""
        if not self.spool.exists():
            return []
        files = sorted(self.spool.glob("*.json"), key=lambda path: path.name[2:])
        return [json.loads(path.read_text()) for path in files]

    def said(self, text: str) -> bool:
        """True once the system log has a line with this text (waits up to 5 s)."""
        end = threading.Event()
        for _ in range(100):
            if any(text in line for line in self.log):
                return True
            end.wait(0.05)
        return False


@pytest.fixture
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeRoot]:
    # A unix socket's path may not be longer than 108 bytes, so not below the test's own long name.
    root = NodeRoot(tmp_path_factory.mktemp("n"))
    try:
        yield root
    finally:
        root.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    collector = Collector()
    yield Site(tmp_path / "root", collector)
    collector.stop()
