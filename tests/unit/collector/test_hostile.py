"""Clients that mean harm, over real sockets: nobody else notices them."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import uvicorn

from slurm_guard.collector import limits, server
from slurm_guard.collector.connections import BoundedConnection
from slurm_guard.collector.service import Collector
from slurm_guard.core.errors import CollectorError, SetupError
from slurm_guard.engine import courier
from tests.unit.collector.kit import Ask, body_of, record, running, settings_in

Door = tuple[str, int]


@contextmanager
def serving(collector: Collector) -> Iterator[Door]:
    """The real server in a thread of this process."""
    sockets = server.listen(collector.settings)
    made = uvicorn.Server(server.configuration(collector))
    thread = threading.Thread(target=made.run, args=(sockets,))
    thread.start()
    try:
        yield sockets[0].getsockname()[:2]
    finally:
        made.should_exit = True
        thread.join(60)


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    monkeypatch.setattr(BoundedConnection, "head_s", 0.5)
    monkeypatch.setattr(BoundedConnection, "whole_s", 3.0)
    monkeypatch.setattr(limits, "BODY_S", 0.5)
    with running(settings_in(tmp_path, port=0)) as collector, serving(collector) as address:
        yield address


def talk(door: Door, data: bytes, seconds: float = 20.0) -> bytes:
    """Send, then read until the other side closes."""
    with socket.create_connection(door, timeout=seconds) as line:
        with suppress(BrokenPipeError, ConnectionResetError):
            line.sendall(data)
        return read_all(line)


def read_all(line: socket.socket) -> bytes:
    parts = []
    try:
        while part := line.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def head(ask: Ask, **more: str) -> bytes:
    lines = [f"{ask.method} {ask.path} HTTP/1.1", "Host: head1"]
    lines += [f"{name}: {value}" for name, value in {**ask.signed(), **more}.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def status(reply: bytes) -> int:
    return int(reply.split(b" ", 2)[1]) if reply.startswith(b"HTTP/1.1 ") else 0


def honest(door: Door) -> bool:
    """A node that means well is served."""
    ask = Ask(node="m1", body=body_of(record("m1")))
    url = f"http://{door[0]}:{door[1]}"
    return courier.request(url, "POST", ask.path, ask.signed(), ask.body, seconds=20).status == 200


def test_an_honest_node_is_served(door: Door) -> None:
    assert honest(door)
    assert honest(door)


POST = b"POST /v1/records HTTP/1.1\r\nHost: h\r\n"
SAID: dict[str, tuple[bytes, set[int]]] = {
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00 hello\r\n\r\n", {400}),
    "HTTP/0.9": (b"GET /v1/health\r\n\r\n", {400}),
    "huge header": (b"GET /v1/health HTTP/1.1\r\nHost: h\r\nX: " + b"a" * (1 << 20) + b"\r\n\r\n", {400, 0}),
    "many headers": (b"GET /v1/health HTTP/1.1\r\nHost: h\r\n" + b"X: y\r\n" * 50_000 + b"\r\n", {400, 0}),
    "endless first line": (b"GET /" + b"a" * (1 << 20), {400, 0}),
    "two lengths": (POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", {400}),
    "negative length": (POST + b"Content-Length: -1\r\n\r\n", {400}),
    "length and chunks": (
        POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        {400, 411, 415},
    ),
    "huge length": (POST + b"Content-Length: 99999999999\r\n\r\n", {413}),
    "folded header": (b"GET /v1/health HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n", {200, 400}),
    "websocket": (
        b"GET /v1/records HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        {405, 404},
    ),
    "no method of ours": (b"DELETE /v1/records HTTP/1.1\r\nHost: h\r\n\r\n", {405}),
    "other encoding of the path": (b"GET /v1/%00 HTTP/1.1\r\nHost: h\r\n\r\n", {404}),
}


@pytest.mark.parametrize("name", SAID)
def test_what_is_no_request_is_refused_and_forgotten(door: Door, name: str) -> None:
    said, expected = SAID[name]
    assert status(talk(door, said)) in expected
    assert honest(door)


def slowly(data: bytes) -> Callable[[socket.socket], None]:
    def send(line: socket.socket) -> None:
        for byte in data:
            line.sendall(bytes([byte]))
            time.sleep(0.02)

    return send


def test_a_head_that_drips_ends(door: Door) -> None:
    with socket.create_connection(door, timeout=20) as line:
        with pytest.raises(OSError, match=r"."):
            slowly(b"GET /v1/health HTTP/1.1\r\nX: " + b"a" * 10_000)(line)
        assert read_all(line) == b""
    assert honest(door)


def test_a_connection_that_says_nothing_ends(door: Door) -> None:
    with socket.create_connection(door, timeout=20) as line:
        assert read_all(line) == b""


def test_a_body_that_never_ends_is_given_up(door: Door) -> None:
    ask = Ask(node="m1", body=body_of(record("m1")))
    reply = talk(door, head(ask) + ask.body[:10])
    assert status(reply) == 408
    assert b"send fewer records" in reply
    assert honest(door)


def test_a_body_that_is_cut_off_is_nothing(door: Door) -> None:
    ask = Ask(node="m1", body=body_of(record("m1")))
    with socket.create_connection(door, timeout=20) as line:
        line.sendall(head(ask) + ask.body[:10])
        line.shutdown(socket.SHUT_WR)
        assert status(read_all(line)) in (0, 400, 408)
    assert honest(door)


def test_a_body_longer_than_promised_is_not_the_signed_one(door: Door) -> None:
    ask = Ask(node="m1", body=body_of(record("m1")))
    reply = talk(door, head(ask, **{"Content-Length": "10"}) + ask.body)
    assert status(reply) == 401


@pytest.mark.parametrize("name", ["Content-Encoding", "Transfer-Encoding"])
def test_a_bomb_is_not_unpacked(door: Door, name: str) -> None:
    bomb = gzip.compress(b"\n" * (64 << 20))
    ask = Ask(node="m1", body=bomb, headers={name: "gzip"})
    assert status(talk(door, head(ask) + bomb)) in (400, 411, 415, 501)
    assert honest(door)


def test_ten_thousand_lines_of_garbage(door: Door) -> None:
    ask = Ask(node="m1", body=b"garbage\n" * 10_000)
    reply = talk(door, head(ask) + ask.body)
    assert status(reply) == 413
    assert honest(door)


def test_an_unsigned_large_body_gets_its_answer(door: Door) -> None:
    ask = Ask(node="m1", body=b"x" * (3 << 20), headers={"Authorization": None})
    assert status(talk(door, head(ask) + ask.body)) == 401


def test_one_request_a_connection(door: Door) -> None:
    asks = [Ask(node="m1", body=body_of(record("m1"))) for _ in range(3)]
    reply = talk(door, b"".join(head(ask) + ask.body for ask in asks))
    assert reply.count(b"HTTP/1.1 200") == 1
    assert b"connection: close" in reply.lower()


def test_a_reader_that_reads_nothing_is_left(door: Door) -> None:
    with socket.create_connection(door, timeout=20) as line:
        line.sendall(b"GET /v1/health HTTP/1.1\r\nHost: h\r\n\r\n")
        assert honest(door)


def test_so_many_connections_of_one_address_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BoundedConnection, "most_per_address", 5)
    with running(settings_in(tmp_path, port=0)) as collector, serving(collector) as door:
        lines = [socket.create_connection(door, timeout=20) for _ in range(12)]
        try:
            ended = [one for one in lines[5:] if read_all(one) == b""]
            assert len(ended) == 7
        finally:
            for one in lines:
                one.close()
        end = time.monotonic() + 20
        while not _served(door):
            assert time.monotonic() < end


def _served(door: Door) -> bool:
    return status(talk(door, b"GET /v1/health HTTP/1.1\r\nHost: h\r\n\r\n")) == 200


def test_listening_says_what_is_in_the_way(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SetupError, match="another collector"):
            server.listen(settings_in(tmp_path, port=port))
    with pytest.raises(SetupError, match="an address of this host"):
        server.listen(settings_in(tmp_path, host="no such host.invalid"))


def test_a_certificate_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "c.pem").write_text("no certificate")
    with pytest.raises(SetupError, match="PEM files that belong together"):
        server.check_certificate(
            settings_in(tmp_path, certificate=str(tmp_path / "c.pem"), key=str(tmp_path / "k"))
        )
    server.check_certificate(settings_in(tmp_path))


TLS = Path(__file__).resolve().parents[1] / "engine/tls"


def test_https_is_spoken_with_who_verifies_it_and_with_nobody_else(tmp_path: Path) -> None:
    pair = {"certificate": str(TLS / "server.pem"), "key": str(TLS / "server.key")}
    settings = settings_in(tmp_path, port=0, **pair)
    server.check_certificate(settings)
    with running(settings) as collector, serving(collector) as door:
        ask = Ask(node="m1", body=body_of(record("m1")))
        url = f"https://localhost:{door[1]}"
        ca_file = str(TLS / "ca.pem")
        reply = courier.request(url, "POST", ask.path, ask.signed(), ask.body, seconds=20, ca_file=ca_file)
        assert reply.status == 200
        with pytest.raises(CollectorError, match="not trusted"):
            courier.request(url, "POST", ask.path, ask.signed(), ask.body, seconds=20)
        assert status(talk(door, head(ask) + ask.body)) == 0
