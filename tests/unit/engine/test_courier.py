"""One request: TLS that is always verified, answers that come slowly or never, by HTTP and by HTTPS."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core.errors import CollectorError
from slurm_guard.engine import courier
from slurm_guard.engine.destination import Destination
from slurm_guard.engine.signing import sign_request
from tests.unit.engine.collector import RAW, Collector, token_file

TLS = Path(__file__).with_name("tls")
AUTHORITY = str(TLS / "ca.pem")


@contextmanager
def collector(certificate: str = "") -> Iterator[Collector]:
    pair = (str(TLS / f"{certificate}.pem"), str(TLS / f"{certificate}.key")) if certificate else None
    found = Collector(pair)
    try:
        yield found
    finally:
        found.stop()


def ask(to: Collector, folder: Path, **options: Any) -> courier.Reply:
    """A signed, empty batch."""
    signed, _ = sign_request(
        Destination(to.url, token_file=str(token_file(folder))), "POST", "/v1/records", "n1", b""
    )
    asked = {"seconds": 10.0, **options}
    url = asked.pop("url", to.url)
    return courier.request(url, "POST", "/v1/records", signed, **asked)


def test_a_certificate_that_our_authority_signed_is_taken(tmp_path: Path) -> None:
    with collector("server") as to:
        assert ask(to, tmp_path, ca_file=AUTHORITY).status == 200


@pytest.mark.parametrize(
    ("certificate", "ca_file", "why"),
    [
        ("server", "", "its certificate is not trusted"),
        ("elsewhere", AUTHORITY, "Hostname mismatch"),
        ("server", str(TLS / "elsewhere.pem"), "its certificate is not trusted"),
        ("server", "/nonexistent/ca.pem", "No such file"),
        ("server", str(TLS / "README.md"), "collector running"),
    ],
)
def test_any_other_certificate_is_refused_and_nothing_is_sent(
    tmp_path: Path, certificate: str, ca_file: str, why: str
) -> None:
    with collector(certificate) as to:
        with pytest.raises(CollectorError, match=why):
            ask(to, tmp_path, ca_file=ca_file)
        assert to.requests == []


def test_the_wrong_scheme_is_told(tmp_path: Path) -> None:
    with collector("server") as to, pytest.raises(CollectorError):
        ask(to, tmp_path, url=to.url.replace("https", "http"))
    with collector() as to, pytest.raises(CollectorError, match="collector running"):
        ask(to, tmp_path, url=to.url.replace("http", "https"), ca_file=AUTHORITY)


@pytest.mark.parametrize("certificate", ["", "server"])
@pytest.mark.parametrize("word", ["hang", "trickle"])
def test_the_deadline_holds(tmp_path: Path, certificate: str, word: str) -> None:
    with collector(certificate) as to:
        to.script.append(word)
        with pytest.raises(CollectorError, match=r"no answer within 0\.2 s"):
            ask(to, tmp_path, seconds=0.2, ca_file=AUTHORITY)


def test_the_deadline_holds_while_sending_and_in_the_handshake(tmp_path: Path) -> None:
    """A listener that never reads: the body does not fit into the sockets' buffers."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        for scheme in ("http", "https"):
            url = f"{scheme}://127.0.0.1:{deaf.getsockname()[1]}"
            with pytest.raises(CollectorError, match=r"no answer within 0\.2 s"):
                courier.request(url, "POST", "/", {}, b"x" * (32 << 20), seconds=0.2)


@pytest.mark.parametrize("word", sorted(RAW))
def test_garbage_over_tls_is_an_error_or_an_answer_for_others_to_judge(tmp_path: Path, word: str) -> None:
    whole = {"no_json": 200, "not_ours": 200, "list": 200, "deep": 200, "redirect": 302}
    with collector("server") as to:
        to.script.append(word)
        if word in whole:
            assert ask(to, tmp_path, ca_file=AUTHORITY).status == whole[word]
        else:
            with pytest.raises(CollectorError):
                ask(to, tmp_path, ca_file=AUTHORITY)


def test_the_prefix_of_an_address_is_kept() -> None:
    found = courier.Address("https://head.example/guard/")
    assert (found.scheme, found.host, found.port, found.prefix) == ("https", "head.example", 443, "/guard")
    assert courier.Address("http://[::1]:8080").host == "::1"


@given(st.text(max_size=60))
def test_any_text_is_an_address_or_told_to_be_none(text: str) -> None:
    for url in (text, f"http://{text}", f"https://head:{text}"):
        try:
            found = courier.Address(url)
        except CollectorError:
            continue
        assert found.host
        assert 0 <= found.port < 65536
        assert not any(letter.isspace() for letter in found.host + found.prefix)


@contextmanager
def answering(raw: bytes) -> Iterator[str]:
    """A server that answers one connection with these bytes, whatever it is asked."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            line, _ = server.accept()
            with line:
                line.recv(65536)
                line.sendall(raw)
                line.shutdown(socket.SHUT_WR)
                while line.recv(65536):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


HEADERS = st.sampled_from(
    [
        b"Content-Length: 3\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 9999999999\r\n",
        b"Content-Length: x\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: keep-alive\r\n",
        b": \r\n",
        b"\xff\xfe: x\r\n",
        b"A\r\n",
        b"\r\n",
    ]
)
STATUS = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.0 200\r\n",
        b"HTTP/9.9 999 ?\r\n",
        b"HTTP/1.1 -5 x\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"ICY 200 OK\r\n",
        b"HTTP/1.1 204 None\r\n",
    ]
)


@given(STATUS, st.lists(HEADERS, max_size=4), st.binary(max_size=60))
def test_whatever_a_server_says_is_an_answer_or_told_to_be_none(
    status: bytes, headers: list[bytes], body: bytes
) -> None:
    with answering(status + b"".join(headers) + b"\r\n" + body) as url, suppress(CollectorError):
        reply = courier.request(url, "GET", "/v1/plan", {}, seconds=10, largest=1000)
        assert len(reply.body) <= 1000
        assert courier.told(reply).startswith("HTTP ")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error":"who are you"}', "HTTP 401: who are you"),
        (b'{"error":"a\\u001b[31m\\nb"}', "HTTP 401: a [31m b"),
        (b'{"error":7}', "HTTP 401: 7"),
        (b"[]", "HTTP 401"),
        (b"\xff", "HTTP 401"),
        (b"[" * 100_000, "HTTP 401"),
    ],
)
def test_what_a_refusal_says_is_one_line(body: bytes, said: str) -> None:
    assert courier.told(courier.Reply(401, {}, body)) == said
