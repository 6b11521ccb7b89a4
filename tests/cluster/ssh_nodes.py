"""Emulated nodes behind a real sshd on loopback: each has an address and a root folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from minicluster import processes
from slurm_guard.core.paths import Places
from slurm_guard.engine import send, sending, spool
from tests.unit.cli.slurm_stub import run_record

CHECKOUT = Path(__file__).resolve().parents[2]
SGUARD = CHECKOUT / ".venv/bin/sguard"
#: sshd will not start without it; the package's unit makes it at boot.
_SEPARATION = Path("/run/sshd")

CONFIG = """\
[collect]
port = {port}
key = "/user"
known_hosts = "/known_hosts"
connect_s = 30
auth_s = 30
transfer_s = {transfer_s}
[collect.hosts]
"n[1-{count}]" = "127.0.7.[1-{count}]"
"""


class SshNodes:
    """`folder/nX` are the nodes' roots, `folder/head` is the collecting host's."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder, self.count = folder, count
        self.head = folder / "head"
        self.names = [f"n{number}" for number in range(1, count + 1)]
        with socket.socket() as probe:
            probe.bind(("127.0.7.1", 0))
            self.port: int = probe.getsockname()[1]
        (self.head / "etc/slurm-guard").mkdir(parents=True)
        for name, kind in (("hostkey", "ed25519"), ("rsakey", "rsa"), ("head/user", "ed25519")):
            self.key(name, kind)
        shutil.copy(self.head / "user.pub", folder / "authorized_keys")
        self.configure()
        for number, name in enumerate(self.names, start=1):
            (folder / name / "etc/slurm-guard").mkdir(parents=True)
            (folder / name / "etc/slurm-guard/node.json").write_text(json.dumps({"node": name}))
            self.know(f"127.0.7.{number}", self.public("hostkey"))

    def key(self, name: str, kind: str) -> None:
        """Make a key pair."""
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", self.folder / name], check=True)

    def public(self, name: str) -> str:
        """Type and text of a public key."""
        return " ".join((self.folder / f"{name}.pub").read_text().split()[:2])

    def configure(self, transfer_s: float = 60, more: str = "") -> None:
        """Write the collecting host's configuration."""
        text = more + self.settings(transfer_s)
        (self.head / "etc/slurm-guard/slurm-guard.toml").write_text(text)

    def settings(self, transfer_s: float = 60) -> str:
        """How the nodes are reached."""
        return CONFIG.format(port=self.port, count=self.count, transfer_s=transfer_s)

    def know(self, address: str, key: str, marker: str = "") -> None:
        """Add a line to known_hosts."""
        with (self.head / "known_hosts").open("a") as file:
            file.write(f"{marker}[{address}]:{self.port} {key}\n")

    def sshd_conf(self, commands: dict[str, str]) -> Path:
        """sshd's configuration: what each node's address runs, by default the sending side."""
        hanging = self.folder / "hang"
        greeting = json.dumps({"v": 1, "node": "n4", "waiting": 5})
        hanging.write_text(
            f"#!/bin/sh\necho '{sending.GREETING} {greeting}'\ntouch {self.folder}/hangs\nexec cat\n"
        )
        hanging.chmod(0o755)
        lines = [f"Port {self.port}", f"HostKey {self.folder}/hostkey", "StrictModes no", "UsePAM no"]
        lines += [
            f"HostKey {self.folder}/rsakey",
            f"AuthorizedKeysFile {self.folder}/authorized_keys",
            "PidFile none",
            "MaxStartups 100",
        ]
        lines += [f"ListenAddress 127.0.7.{number}" for number in range(1, self.count + 1)]
        for number, name in enumerate(self.names, start=1):
            usual = f"{sys.executable} -I -S {send.__file__} --root {self.folder}/{name}"
            lines += [
                f"Match LocalAddress 127.0.7.{number}",
                f"ForceCommand {commands.get(name, usual).format(folder=self.folder)}",
            ]
        path = self.folder / "sshd_config"
        path.write_text("\n".join(lines) + "\n")
        return path

    def fill(self, node: str, count: int, named: str = "") -> list[str]:
        """Leave records in a node's spool; their run ids."""
        places = Places(str(self.folder / node))
        made = [run_record(named or node) for _ in range(count)]
        folder = Path(places.spool)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for record in made:
            (folder / spool.file_name(record)).write_bytes(spool.encode(record))
        return [record["run_id"] for record in made]

    def waiting(self, node: str) -> list[str]:
        """The files in a node's spool."""
        return sorted(os.listdir(self.folder / node / "var/lib/slurm-guard/spool"))

    def command(self, hostlist: str) -> list[str]:
        """`sguard collect` on the collecting host."""
        return [str(SGUARD), "collect", "-w", hostlist, "--root", str(self.head)]

    def start(self, hostlist: str, *options: str, **more: str) -> subprocess.Popen[str]:
        """`sguard collect`, started."""
        # Whoever starts the tests in the background makes them, and their children, deaf to Ctrl-C.
        command = ["/usr/bin/env", "--default-signal=INT", *self.command(hostlist), *options]
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"HOME": str(self.head), **more},
        )

    def collect(self, hostlist: str, code: int = 0, **more: str) -> dict[str, Any]:
        """`sguard collect --json`, whole; `more` is its environment."""
        running = self.start(hostlist, "--json", **more)
        out, err = running.communicate(timeout=90)
        assert running.returncode == code, (out, err)
        found: dict[str, Any] = json.loads(out)
        return found

    def senders(self) -> list[int]:
        """The sending sides that run now."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            except OSError:
                continue
            if send.__file__.encode() in command and any(bytes(self.folder) in one for one in command):
                found.append(int(entry.name))
        return found

    def kill_senders(self) -> int:
        """Kill -9 those that run now; how many that were."""
        found = 0
        for process in self.senders():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
                found += 1
        return found


@contextmanager
def ssh_nodes(count: int = 3, commands: dict[str, str] | None = None) -> Iterator[SshNodes]:
    """Nodes that can be collected from. The system's own sshd and keys are not touched."""
    folder = Path(tempfile.mkdtemp(prefix="sguard-ssh-"))
    folder.chmod(0o755)
    made = not _SEPARATION.exists()
    _SEPARATION.mkdir(mode=0o755, exist_ok=True)
    nodes = SshNodes(folder, count)
    argv = ["/usr/sbin/sshd", "-D", "-e", "-f", str(nodes.sshd_conf(commands or {}))]
    daemon = processes.launch(folder / "process", argv, folder / "log", folder, None)
    try:
        _wait(nodes)
        yield nodes
    finally:
        processes.end([daemon])
        _wait_for_none(nodes)
        shutil.rmtree(folder)
        if made:
            _SEPARATION.rmdir()


def _wait(nodes: SshNodes) -> None:
    end = time.monotonic() + 20
    while True:
        try:
            socket.create_connection((f"127.0.7.{nodes.count}", nodes.port), 5).close()
            return
        except OSError:
            assert time.monotonic() < end, (nodes.folder / "log").read_text()
            time.sleep(0.02)


def _wait_for_none(nodes: SshNodes) -> None:
    """A sending side whose connection broke notices it when it reads or writes."""
    end = time.monotonic() + 20
    while left := nodes.senders():
        assert time.monotonic() < end, f"still running: {left}"
        time.sleep(0.02)
