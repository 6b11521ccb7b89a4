"""uvicorn around the application: sockets, TLS, signals, and an end that loses nothing."""

from __future__ import annotations

import logging
import resource
import signal
import socket
import ssl
from typing import TYPE_CHECKING

import uvicorn

from slurm_guard.collector import app, limits
from slurm_guard.collector.connections import BoundedConnection
from slurm_guard.core.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.routing import BaseRoute

    from slurm_guard.collector.service import Collector
    from slurm_guard.collector.settings import Settings

_GRACE_S = 30


def listen(settings: Settings) -> list[socket.socket]:
    """Listening sockets of every address that the host's name has. Raises SetupError."""
    place = f"{settings.host}:{settings.port}"
    try:
        told = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise SetupError(f"listen = {place}: {error.strerror}; expected an address of this host") from error
    sockets: list[socket.socket] = []
    try:
        for family, _kind, _protocol, _name, address in dict.fromkeys(told):
            sockets.append(_listening(family, address))
    except OSError as error:
        for one in sockets:
            one.close()
        why = error.strerror or str(error)
        raise SetupError(f"listen = {place}: {why}; is another collector running here?") from error
    return sockets


def _listening(family: int, address: object) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)  # type: ignore[arg-type]  # as getaddrinfo gave it
        made.listen(2048)
    except BaseException:
        made.close()
        raise
    return made


def configuration(collector: Collector, more: Sequence[BaseRoute] = ()) -> uvicorn.Config:
    """How uvicorn is run: no header of a client is believed about its address, one request a connection."""
    settings = collector.settings
    return uvicorn.Config(
        app.build(collector, more),
        loop="asyncio",
        http=BoundedConnection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        headers=[("connection", "close")],
        timeout_graceful_shutdown=_GRACE_S,
        h11_max_incomplete_event_size=limits.LARGEST_HEAD,
        ssl_certfile=settings.certificate or None,
        ssl_keyfile=settings.key or None,
    )


def check_certificate(settings: Settings) -> None:
    """Raise SetupError if certificate and key cannot be used."""
    if not settings.certificate:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.certificate, settings.key)
    except (OSError, ssl.SSLError) as error:
        raise SetupError(
            f"certificate {settings.certificate} and key {settings.key} cannot be used: {error}; expected "
            "PEM files that belong together and that this user may read"
        ) from error


def run(
    collector: Collector,
    sockets: list[socket.socket],
    more: Sequence[BaseRoute] = (),
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or SIGINT; then no new connection, the running requests to their end, and close.

    `ready` is called once requests are taken. Raises StoreError or OSError if nothing can be written.
    """
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    _allow_connections()
    server = uvicorn.Server(configuration(collector, more))

    def leave(_number: int, _frame: object) -> None:
        server.should_exit = True

    # A signal before uvicorn listens for it counts too; when uvicorn is done it raises it once more, and what
    # is left to do then must not be cut short.
    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        collector.start()
        ready()
        server.run(sockets)
    finally:
        collector.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _allow_connections() -> None:
    """As many files as this process may have: a thousand connections, and the store's."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * limits.MOST_CONNECTIONS
    wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
