"""A collector in a folder, and requests to it that are signed with a token: no munged is needed."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from slurm_guard.collector import app
from slurm_guard.collector.answers import RefusalError
from slurm_guard.collector.service import Collector
from slurm_guard.collector.settings import Settings
from slurm_guard.core import plan
from slurm_guard.engine import signing
from tests.unit.store.factory import run

TOKEN = b"a token of at least thirty-two bytes"
HERE, THERE = "10.20.0.1", "10.20.0.2"
ADDRESSES = {"n1": [HERE], "n[2-9]": [THERE], "m1": ["127.0.0.1"]}


def settings_in(folder: Path, **more: Any) -> Settings:
    """Settings of a collector of cluster `lab` with a token."""
    token = folder / "token"
    if not token.exists():
        token.touch(mode=0o600)
        token.write_bytes(TOKEN + b"\n")
    given: dict[str, Any] = {
        "store": folder / "store.sqlite",
        "plan": folder / "plan.json",
        "alive": folder / "collector.alive",
        "cluster": "lab",
        "token_file": str(token),
        "addresses": ADDRESSES,
    }
    return Settings(**{**given, **more})


@contextmanager
def running(settings: Settings, **more: Any) -> Iterator[Collector]:
    """A started collector, closed at the end."""
    collector = Collector(settings, **more)
    try:
        collector.start()
        yield collector
    finally:
        collector.close()


def client(collector: Collector, address: str = HERE) -> TestClient:
    """Requests that come from an address."""
    made = TestClient(app.build(collector), client=(address, 40000), raise_server_exceptions=False)
    made.headers.clear()
    return made


def record(node: str = "n1", **more: Any) -> dict[str, Any]:
    """A healthcheck's record of cluster lab with a run id of its own."""
    made = run("healthcheck", node, 0)
    return {**made, "cluster": "lab", "run_id": os.urandom(16).hex(), **more}


def body_of(*records: dict[str, Any]) -> bytes:
    """Records as the lines of a body."""
    return b"".join(json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in records)


@dataclass
class Ask:
    """A request as an honest node makes it; change what a test is about, then `send`."""

    method: str = "POST"
    path: str = "/v1/records"
    node: str = "n1"
    body: bytes = b""
    payload: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str | None] = field(default_factory=dict)
    token: bytes = TOKEN
    digest: str | None = None

    def signed(self) -> dict[str, str]:
        """All headers; those that a test set to None are left out."""
        content: dict[str, Any] = {
            "v": 1,
            "method": self.method,
            "path": self.path,
            "node": self.node,
            "digest": self.digest or hashlib.sha256(self.body).hexdigest(),
            "nonce": os.urandom(16).hex(),
            "time": int(time.time()),
            **self.payload,
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
        made: dict[str, str | None] = {
            signing.NODE: self.node,
            "Authorization": f"Token {signing.token_signature(self.token, text)}",
            signing.PAYLOAD: base64.urlsafe_b64encode(text).decode(),
        }
        if self.method == "POST":
            made["Content-Type"] = "application/x-ndjson"
            made["Content-Length"] = str(len(self.body))
        made.update(self.headers)
        return {name: value for name, value in made.items() if value is not None}

    def send(self, to: TestClient) -> Any:
        """The answer."""
        return to.request(self.method, self.path, headers=self.signed(), content=self.body or None)


def outcome(work: Callable[[], Any]) -> tuple[Any, RefusalError | None]:
    """What came of it: a value, or a refusal."""
    try:
        return work(), None
    except RefusalError as error:
        return None, error


def write_plan(path: Path, **more: Any) -> dict[str, Any]:
    """A whole plan; its bundle."""
    bundle: dict[str, Any] = {
        "schema": "1.0", "hash": "", "built_at": 1_900_000_000, "cluster": "lab", "nodes": {}, **more,
    }  # fmt: skip
    bundle["hash"] = plan.digest(bundle)
    path.write_bytes(plan.encode(bundle))
    return bundle
