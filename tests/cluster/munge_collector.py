"""The small collector of the unit tests, signing and checking with a real munged."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from slurm_guard.slurm import munge
from tests.unit.engine.collector import Collector

CHECKOUT = Path(__file__).resolve().parents[2]


def encode_as(uid: int, payload: bytes, socket: str) -> str:
    """A credential that another user made."""
    program = "import sys; from slurm_guard.slurm import munge; "
    program += "print(munge.encode(sys.stdin.buffer.read(), sys.argv[1]))"
    made = subprocess.run(
        [sys.executable, "-c", program, socket],
        cwd=CHECKOUT,
        user=uid,
        group=uid,
        extra_groups=[],
        input=payload,
        capture_output=True,
        check=True,
    )
    return made.stdout.decode().strip()


class MungeCollector(Collector):
    """`signer` is the uid that signs plans, `answerer` the one that signs answers to records.

    `sign_with` replaces the payload that is signed under plans, `answer_with` that under answers.
    """

    def __init__(self, socket: str) -> None:
        self.socket = socket
        self.signer = os.getuid()
        self.sign_with: bytes | None = None
        self.answerer = os.getuid()
        self.answer_with: bytes | None = None
        self.addresses: set[str] = set()
        super().__init__()

    def signed(self, handler: BaseHTTPRequestHandler, body: bytes) -> dict[str, Any]:
        scheme, _, credential = handler.headers["Authorization"].partition(" ")
        found = munge.decode(credential, self.socket)
        self.addresses.add(found.address)
        said: dict[str, Any] = json.loads(found.payload)
        expected = {"v": 1, "method": handler.command, "path": handler.path}
        expected["node"] = handler.headers["X-Slurm-Guard-Node"]
        expected["digest"] = hashlib.sha256(body).hexdigest()
        same = {key: said.get(key) for key in expected} == expected
        if scheme != "Munge" or found.uid != 0 or not same or said["nonce"] in self.nonces:
            self.problems.append(f"badly signed by {found.uid}: {said} for {expected}")
        self.nonces.add(said["nonce"])
        return said

    def signature(self, payload: bytes) -> str:
        return f"Munge {encode_as(self.signer, self.sign_with or payload, self.socket)}"

    def answer_signature(self, payload: bytes) -> str:
        return f"Munge {encode_as(self.answerer, self.answer_with or payload, self.socket)}"
