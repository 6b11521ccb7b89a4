"""uvicorn's connections with bounds: how many, how long until the first request's head, how long in all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

from slurm_guard.collector import limits

if TYPE_CHECKING:
    import asyncio


class BoundedConnection(H11Protocol):
    """One connection. What is beyond a bound is closed without a word: it has not asked for anything yet."""

    head_s = limits.HEAD_S
    whole_s = limits.CONNECTION_S
    most = limits.MOST_CONNECTIONS
    most_per_address = limits.MOST_PER_ADDRESS
    _timers: tuple[asyncio.TimerHandle, ...] = ()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client connected."""
        super().connection_made(transport)
        if self._too_many():
            transport.abort()
            return
        self._timers = (
            self.loop.call_later(self.head_s, self._end_unless_asked),
            self.loop.call_later(self.whole_s, transport.abort),
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection ended, whoever ended it."""
        for timer in self._timers:
            timer.cancel()
        super().connection_lost(exc)

    def _too_many(self) -> bool:
        if len(self.connections) > self.most:
            return True
        here = _address(self)
        return sum(_address(one) == here for one in self.connections) > self.most_per_address

    def _end_unless_asked(self) -> None:
        if getattr(self, "scope", None) is None:  # it comes with the head of the first request
            self.transport.abort()


def _address(connection: object) -> str:
    client: tuple[str, int] | None = getattr(connection, "client", None)
    return client[0] if client else ""
