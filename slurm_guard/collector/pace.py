"""No more calls of Slurm's programs a second than an admin allows."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: A second and a little: a program may take longer to start than the one before it.
_WINDOW_S = 1.2


class Pace:
    """At most `calls_per_s` calls within any second; with less than one a second, so many on average."""

    def __init__(
        self,
        calls_per_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._most = max(1, int(calls_per_s))
        self._window = max(_WINDOW_S, self._most / calls_per_s)
        self._clock, self._sleep = clock, sleep
        self._made: deque[float] = deque()
        self._free_at = float("-inf")
        self._turn = threading.Lock()

    def take(self, calls: int = 1) -> None:
        """Wait until so many calls in a row may be made, and count them as made now.

        More than there are in a window are let through together, and paid for by a longer wait afterwards.
        """
        with self._turn:
            while (pause := self._pause(calls)) > 0:
                self._sleep(pause)
            now = self._clock()
            self._made.extend([now] * calls)
            if calls > self._most:
                self._free_at = now + calls / self._most * self._window

    def _pause(self, calls: int) -> float:
        now = self._clock()
        while self._made and self._made[0] <= now - self._window:
            self._made.popleft()
        wait = self._free_at - now
        excess = len(self._made) + min(calls, self._most) - self._most
        if excess > 0:
            wait = max(wait, self._made[min(excess, len(self._made)) - 1] + self._window - now)
        return wait
