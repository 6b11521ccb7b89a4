"""Every bound of the collector: sizes, rates, times. Whoever reaches one is told, and nobody else notices."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from slurm_guard.collector.answers import later

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LARGEST_BODY = 4 << 20
MOST_RECORDS = 1000
#: Request line and all headers together: a credential is some hundred bytes, at most 32 KiB.
LARGEST_HEAD = 48 << 10
#: Bodies that are in memory at once; parsed they take several times as much.
ROOM = 16 << 20
ROOM_WAIT_S = 10.0
BODY_S = 30.0
#: Connections at once: in all, and from one address.
MOST_CONNECTIONS = 1000
MOST_PER_ADDRESS = 400
#: A connection has so long for its first request's head, and so long in all.
HEAD_S, CONNECTION_S = 10.0, 150.0
#: Requests per minute: of one node (or user), and refused ones of an address until it waits in line.
PER_NODE, FAILURES_PER_ADDRESS = 60, 120
#: Records that wait for the store.
MOST_WAITING = 10_000
#: A request is answered, or told to come back, after so long: a shipper gives up a little later.
COMMIT_WAIT_S = 15.0
_MOST_KEYS = 50_000


class Rate:
    """Token buckets: each key may do `per_minute` things a minute, and as many at once after a pause."""

    def __init__(self, per_minute: float, most_keys: int = _MOST_KEYS) -> None:
        self.per_minute = per_minute
        self._most = most_keys
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, key: str, now: float) -> float:
        """Seconds until this key may do the next thing; 0 is now. `now` is monotonic."""
        left = self._left(key, now)
        return 0.0 if left >= 1 else (1 - left) * 60 / self.per_minute

    def take(self, key: str, now: float) -> float:
        """The same, and where that is 0, it is done: the next one counts from here."""
        wait = self.wait_s(key, now)
        if not wait:
            self._buckets[key] = (self._left(key, now) - 1, now)
            self._buckets.move_to_end(key)
            if len(self._buckets) > self._most:
                self._buckets.popitem(last=False)
        return wait

    def _left(self, key: str, now: float) -> float:
        left, at = self._buckets.get(key, (self.per_minute, now))
        return min(self.per_minute, left + max(0.0, now - at) * self.per_minute / 60)


class Room:
    """Memory for bodies: who asks for more than is left waits for a while, in order."""

    def __init__(self, size: int = ROOM, patience_s: float = ROOM_WAIT_S) -> None:
        self._left = size
        self._patience_s = patience_s
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def taken(self, size: int) -> AsyncIterator[None]:
        """So many bytes for the time of the block. Raises RefusalError (503): no room in time."""
        await self._take(size)
        try:
            yield
        finally:
            self._left += size
            self._serve()

    async def _take(self, size: int) -> None:
        if not self._waiting and size <= self._left:
            self._left -= size
            return
        turn = (size, asyncio.get_running_loop().create_future())
        self._waiting.append(turn)
        try:
            await asyncio.wait_for(asyncio.shield(turn[1]), self._patience_s)
        except BaseException as error:
            self._give_up(turn)
            if isinstance(error, TimeoutError):
                raise later("too many nodes send much at once; send this again later") from None
            raise

    def _give_up(self, turn: tuple[int, asyncio.Future[None]]) -> None:
        """Leave the line; what was handed over at the last moment goes back."""
        if turn in self._waiting:
            self._waiting.remove(turn)
        elif turn[1].done():
            self._left += turn[0]
        self._serve()

    def _serve(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._left:
            size, future = self._waiting.pop(0)
            self._left -= size
            future.set_result(None)
