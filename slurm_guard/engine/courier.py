"""One HTTP or HTTPS request with a deadline that holds, an answer of bounded size, and no redirects.

A server that hangs, trickles bytes or never ends its answer costs the deadline and nothing more. Not bounded
here is the resolver, which has time-outs of its own (resolv.conf).
"""

from __future__ import annotations

import io
import socket
import time

from slurm_guard.core.errors import CollectorError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse
    from typing import Any

LARGEST_ANSWER = 1 << 20
CONNECT_S = 5.0
_AGENT = "slurm-guard/1"


class Reply:
    """An answer: HTTP `status`, `headers` (as `email.message.Message` has them) and `body`."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: Any, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body


class _Deadline:
    """A point in monotonic time after which nothing is waited for."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.end = time.monotonic() + seconds

    def left(self) -> float:
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


class _Reader(io.RawIOBase):
    def __init__(self, sock: socket.socket, deadline: _Deadline) -> None:
        self._sock, self._deadline = sock, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self._deadline.left())
        return self._sock.recv_into(buffer)


class _Line:
    """A connected socket as http.client uses one; each wait ends at the same deadline.

    A server may answer (`too large`) before it has read everything, and hang up: what cannot be sent any more
    is left, and the answer is read.
    """

    def __init__(self, sock: socket.socket, deadline: _Deadline) -> None:
        self._sock, self._deadline = sock, deadline

    def sendall(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            self._sock.settimeout(self._deadline.left())
            try:
                view = view[self._sock.send(view) :]
            except (BrokenPipeError, ConnectionResetError):
                return

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self._sock, self._deadline))

    def close(self) -> None:
        """The owner closes the socket when the answer was read."""


class Address:
    """A collector's URL, taken apart: `scheme`, `host`, `port` and `prefix` (a path before `/v1/…`)."""

    def __init__(self, url: str) -> None:
        from urllib.parse import urlsplit

        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise _bad_url(url) from None
        plain = url.isascii() and url.isprintable() and " " not in url
        odd = not plain or bool(parts.username or parts.password or parts.query or parts.fragment)
        if parts.scheme not in ("http", "https") or not parts.hostname or odd:
            raise _bad_url(url)
        self.scheme = parts.scheme
        self.host = parts.hostname
        self.port = port if port is not None else (443 if parts.scheme == "https" else 80)
        self.prefix = parts.path.rstrip("/")


def _bad_url(url: str) -> CollectorError:
    return CollectorError(f"collector.url {url!r}: expected http://HOST:PORT or https://HOST:PORT")


def request(
    url: str,
    method: str,
    path: str,
    headers: dict[str, str],
    body: bytes = b"",
    *,
    seconds: float,
    largest: int = LARGEST_ANSWER,
    ca_file: str = "",
) -> Reply:
    """Send one request and read the whole answer, whatever its status.

    `ca_file` names the authorities that may have signed the server's certificate (default: the system's);
    an HTTPS server is always verified. Raises CollectorError if there is no whole answer within `seconds`,
    or one larger than `largest` bytes.
    """
    from http.client import HTTPException

    at, deadline = Address(url), _Deadline(seconds)
    place = f"{at.host}:{at.port}"
    try:
        with _connected(at, deadline, ca_file) as sock:
            return _exchange(at, _Line(sock, deadline), method, path, headers, body, largest)
    except (TimeoutError, socket.timeout):
        raise CollectorError(
            f"{place} gave no answer within {seconds:.3g} s; is the collector well?"
        ) from None
    except HTTPException as error:
        what = str(error) or type(error).__name__
        raise CollectorError(f"{place} gave no HTTP answer: {what[:200]}; is this the collector?") from None
    except OSError as error:
        raise CollectorError(f"{place}: {_words(error)}") from None
    except (ValueError, AttributeError, AssertionError) as error:  # http.client on some kinds of garbage
        raise CollectorError(f"{place} gave no HTTP answer: {type(error).__name__}: {error}"[:300]) from None


def _connected(at: Address, deadline: _Deadline, ca_file: str) -> socket.socket:
    sock = socket.create_connection((at.host, at.port), timeout=min(CONNECT_S, deadline.left()))
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if at.scheme == "https":
            import ssl

            sock.settimeout(deadline.left())
            # Verifies the chain and the host name; nothing here turns that off.
            return ssl.create_default_context(cafile=ca_file or None).wrap_socket(
                sock, server_hostname=at.host
            )
    except BaseException:
        sock.close()
        raise
    return sock


def _exchange(
    at: Address, line: _Line, method: str, path: str, headers: dict[str, str], body: bytes, largest: int
) -> Reply:
    from http.client import HTTPConnection

    connection = HTTPConnection(at.host, at.port)
    connection.sock = line  # all that http.client uses of a socket
    sent = {"User-Agent": _AGENT, "Connection": "close", **headers}
    connection.request(method, at.prefix + path, body=body if method != "GET" else None, headers=sent)
    return _read(connection, largest)


def _read(connection: HTTPConnection, largest: int) -> Reply:
    response: HTTPResponse = connection.getresponse()
    body = response.read(largest + 1)
    if len(body) > largest:
        raise CollectorError(
            f"an answer of more than {largest} bytes; is this the collector?", response.status
        )
    promised = response.headers.get("Content-Length", "")
    if promised.isdigit() and len(body) < int(promised):
        raise CollectorError("the answer was cut short; it is asked for again later", response.status)
    return Reply(response.status, response.headers, body)


def _words(error: OSError) -> str:
    """An error of the network in a sentence."""
    kind = type(error).__name__
    if kind == "SSLCertVerificationError":
        why = getattr(error, "verify_message", "") or str(error)
        return f"its certificate is not trusted: {why}; expected one that collector.ca_file vouches for"
    if kind == "gaierror":
        return f"the name is not known: {error.strerror}; look at collector.url"
    return f"{error.strerror or str(error) or kind}; is the collector running?"


def is_protocol(reply: Reply) -> bool:
    """True if an answer that is no success is one of the collector's, not of some other server."""
    return _error(reply) is not None


def _error(reply: Reply) -> str | None:
    import json

    try:
        return str(json.loads(reply.body)["error"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def told(reply: Reply) -> str:
    """What an answer that is no success says, in one line for a person."""
    said = _error(reply) or ""
    text = " ".join("".join(c if c.isprintable() else " " for c in said[:400]).split())
    return f"HTTP {reply.status}{': ' + text if text else ''}"
