"""A small collector on loopback: speaks wire protocol v1 in token mode, and misbehaves as it is told."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import ssl
import threading
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TOKEN = b"0123456789abcdef0123456789abcdef-mine"

#: How one answer goes wrong, by name: what is written instead of an answer (the line is then cut).
RAW = {
    "garbage": b"\x16\x03\x01 this is no HTTP at all\r\n\r\n",
    "no_json": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "not_ours": b'HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{"welcome":"you"}',
    "list": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
    "cut": b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"acknowledged":[',
    "redirect": b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    "bad_chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
    "huge": b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (2 << 20),
    "many_headers": b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 500,
    "long_header": b"HTTP/1.1 200 OK\r\nA: " + b"b" * 100_000,
    "nothing": b"",
    "deep": b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"[" * 100_000,
}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    collector: Collector

    def handle_error(self, *_: Any) -> None:
        """A client that hung up is what some tests are about."""


class Collector:
    """Runs in threads of this process. `script` tells how the next answers go; an empty one: as they should.

    Words of a script: a key of RAW; `lost` (commits, then hangs up without a word); `dropped` (neither);
    `hang` and `trickle` (until `stop`); a status and its headers; or a function that makes the answer's JSON.
    """

    def __init__(self, tls: tuple[str, str] | None = None) -> None:
        self.script: deque[Any] = deque()
        self.store: dict[str, bytes] = {}
        self.seen: list[list[str]] = []
        self.requests: list[str] = []
        self.nonces: set[str] = set()
        self.problems: list[str] = []
        self.plan: bytes = b""
        self.plan_hash = ""
        self.plan_token = TOKEN
        self.answer_token = TOKEN
        self.forge: Callable[[bytes, str], tuple[bytes, str]] | None = None
        self.takes_over: set[str] = set()
        self.refuse: dict[str, str] = {}
        self.most_bytes = 4 << 20
        self.stopped = threading.Event()
        self.server = _Server(("127.0.0.1", 0), _Handler)
        self.server.collector = self
        scheme = "http"
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            scheme = "https"
        self.url = f"{scheme}://localhost:{self.server.server_address[1]}"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self._thread.start()

    def stop(self) -> None:
        self.stopped.set()
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()

    def signed(self, handler: BaseHTTPRequestHandler, body: bytes) -> dict[str, Any]:
        """The payload of a request that is signed as it must be; what is wrong is noted for the test."""
        scheme, _, signature = handler.headers["Authorization"].partition(" ")
        payload = base64.urlsafe_b64decode(handler.headers["X-Slurm-Guard-Payload"])
        wanted = hmac.new(TOKEN, payload, "sha256").hexdigest()
        said: dict[str, Any] = json.loads(payload)
        expected = {
            "v": 1,
            "method": handler.command,
            "path": handler.path,
            "node": handler.headers["X-Slurm-Guard-Node"],
            "digest": hashlib.sha256(body).hexdigest(),
        }
        if (scheme, signature) != ("Token", wanted) or {key: said.get(key) for key in expected} != expected:
            self.problems.append(f"badly signed: {said} for {expected}")
        if said["nonce"] in self.nonces or not isinstance(said["time"], int):
            self.problems.append(f"nonce or time: {said}")
        self.nonces.add(said["nonce"])
        return said

    def signature(self, payload: bytes) -> str:
        """What stands under a plan."""
        return f"Token {hmac.new(self.plan_token, payload, 'sha256').hexdigest()}"

    def answer_signature(self, payload: bytes) -> str:
        """What stands under an answer to records."""
        return f"Token {hmac.new(self.answer_token, payload, 'sha256').hexdigest()}"

    def take(self, body: bytes) -> dict[str, Any]:
        """Commit the records of a body; the answer."""
        answer: dict[str, Any] = {"acknowledged": [], "refused": [], "takes_over": [], "plan": self.plan_hash}
        ids = []
        for number, line in enumerate(body.splitlines(), 1):
            run_id = json.loads(line)["run_id"]
            ids.append(run_id)
            if run_id in self.refuse:
                answer["refused"].append({"line": number, "run_id": None, "why": self.refuse[run_id]})
                continue
            if self.store.setdefault(run_id, line) != line:
                self.problems.append(f"{run_id} came with two contents")
            answer["acknowledged"].append(run_id)
            if run_id in self.takes_over:
                answer["takes_over"].append(run_id)
        self.seen.append(ids)
        return answer


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    @property
    def collector(self) -> Collector:
        return self.server.collector

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        word = self.collector.script.popleft() if self.collector.script else None
        self.collector.requests.append(f"POST {self.path}")
        if size > self.collector.most_bytes:
            self._status(413, {})  # before it has read the body
            return
        body = self.rfile.read(size)
        if len(body) < size:
            return  # the node died while it sent
        nonce = self.collector.signed(self, body)["nonce"]
        if word in ("lost", None) or callable(word):
            self._taken(word, self.collector.take(body), nonce)
        else:
            self._misbehave(word)

    def do_GET(self) -> None:
        word = self.collector.script.popleft() if self.collector.script else None
        self.collector.requests.append(f"GET {self.path}")
        said = self.collector.signed(self, b"")
        if word is not None:
            self._misbehave(word)
        elif self.headers["If-None-Match"] == f'"{self.collector.plan_hash}"':
            self._status(304, {})
        elif not self.collector.plan_hash:
            self._status(404, {})
        else:
            payload = _payload(said["nonce"], self.collector.plan)
            signature = {"X-Slurm-Guard-Signature": self.collector.signature(payload)}
            self._answer(200, self.collector.plan, signature)

    def _taken(self, word: str | Callable[[Any], Any] | None, answer: dict[str, Any], nonce: str) -> None:
        if word == "lost":
            self._misbehave("nothing")
            return
        body = json.dumps(word(answer) if callable(word) else answer).encode()
        signature = self.collector.answer_signature(_payload(nonce, body))
        if self.collector.forge is not None:  # somebody on the way
            body, signature = self.collector.forge(body, signature)
        self._answer(200, body, {"X-Slurm-Guard-Signature": signature} if signature else {})

    def _misbehave(self, word: Any) -> None:
        self.close_connection = True
        if isinstance(word, tuple):
            self._status(*word)
        elif word == "hang":
            self.collector.stopped.wait()
        elif word == "trickle":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while not self.collector.stopped.wait(0.02):
                try:
                    self.wfile.write(b"A")
                except OSError:
                    return
        elif word != "dropped":
            try:
                self.wfile.write(RAW[word])
            except OSError:
                return

    def _status(self, status: int, headers: dict[str, str]) -> None:
        body = b"" if status == 304 else b'{"error":"told by the test"}'
        self._answer(status, body, headers)

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.close_connection = True
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _payload(nonce: str, body: bytes) -> bytes:
    content = {"v": 1, "nonce": nonce, "digest": hashlib.sha256(body).hexdigest()}
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def token_file(root: Path) -> Path:
    """A token as an admin leaves it on a node."""
    path = root / "etc/slurm-guard/token"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(TOKEN + b"\n")
    path.chmod(0o600)
    return path
