"""The lines between `sguard collect` and a node, from either side, and the files that say who is known."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from pathlib import Path

from paramiko import ECDSAKey

from fuzz.targets import Target, require, scratch
from fuzz.targets.network import LINE
from slurm_guard.core.errors import RecordError, RemoteError, SetupError
from slurm_guard.core.plan import Plan
from slurm_guard.engine import sending, spool
from slurm_guard.remote import pull
from slurm_guard.remote.known_hosts import KnownHosts
from slurm_guard.remote.ssh import Wire
from slurm_guard.remote.target import Target as Node

KEY = ECDSAKey.generate()


class Channel:
    """A channel on which these bytes come, in small pieces."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def settimeout(self, _seconds: float) -> None:
        pass

    def recv(self, size: int) -> bytes:
        return self._data.read(min(size, 977))

    def recv_stderr(self, _size: int) -> bytes:
        return b"\xff\x1b[2J no such file"

    def sendall(self, data: bytes) -> None:
        require(data.endswith(b"\n") and data.count(b"\n") == 1, "an answer of several lines")


def pulled(data: bytes) -> None:
    """What a node may say to the collecting host."""
    lines: list[bytes] = []

    def commit(_target: Node, batch: list[bytes]) -> pull.Committed:
        require(all(b"\n" not in one for one in batch), "a record of several lines")
        lines.extend(batch)
        return pull.Committed(["a" * 32], 0, [(1, None, "x")], [])

    node = Node("n1", "127.0.0.1")
    done = pull.Pulled(node)
    try:
        pull._converse(Wire(Channel(data), 60.0), node, commit, done)  # type: ignore[arg-type]
    except RemoteError as error:
        require(str(error).isprintable(), "a sentence of several lines")
    require(len(done.reasons) <= 200, "reasons without end")


def sent(data: bytes) -> None:
    """What a collecting host may say to the node."""
    here, run_id = scratch.places(), "a" * 32
    for path in spool.paths(here):
        Path(path).unlink()
    spool.write(here, {"run_id": run_id, "hook": "prolog"}, Plan({}, "n1").spool)
    sending._step = lambda: None
    with suppress(RecordError, ValueError, RecursionError):  # `main` tells what it is
        sending.Sending(here, io.BytesIO(data), io.BytesIO()).run()
    if not spool.paths(here):
        require(run_id.encode() in data or b"line" in data or b"\\u" in data, "gone without a word")


def known_hosts(data: bytes) -> None:
    """An admin's known_hosts: no line of it lets an unknown key in."""
    path = Path(scratch.put(f"{scratch.root()}/known_hosts", data))
    try:
        found = KnownHosts([path])
        found.algorithms("n1", 22)
        found.require("n1", 2222, KEY)
    except (RemoteError, SetupError):
        return
    raise AssertionError("an unknown key was let in")


GREETING = b'slurm-guard-spool {"v":1,"node":"n1","waiting":1}\n'
BATCH = b"batch 1 %d\n%s\n" % (len(LINE) + 1, LINE)
TARGETS = (
    Target(
        "pulled",
        "frames of a node",
        pulled,
        (GREETING + BATCH + b"end 0\n", b"error x\n", GREETING + b"end 5\n"),
    ),
    Target(
        "sent",
        "answers of a collecting host",
        sent,
        (
            json.dumps({"acknowledged": ["a" * 32], "refused": []}).encode() + b"\n",
            b'{"acknowledged":[],"refused":[{"line":1}]}\n',
        ),
    ),
    Target(
        "known_hosts",
        "known_hosts",
        known_hosts,
        (
            b"n1 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1ui8eE\n@revoked * ssh-rsa AAAA\n|1|a=|b= ssh-rsa AAAAB3\n",
        ),
    ),
)
