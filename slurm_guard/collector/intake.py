"""One thread that writes: requests are taken in groups, and each is answered after its group's commit.

A group is what came within `GROUP_S`: a commit waits for the disk, so many requests share one. Whatever kills
the process in between, a request without an answer is sent again, and what was committed is then a duplicate.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from slurm_guard.collector import alive
from slurm_guard.collector.answers import RefusalError, later
from slurm_guard.collector.commit import Committer
from slurm_guard.collector.limits import COMMIT_WAIT_S, MOST_WAITING
from slurm_guard.core.errors import StoreError
from slurm_guard.store import nonces

if TYPE_CHECKING:
    from pathlib import Path

    from slurm_guard.collector.commit import Request, Taken, TakeOver
    from slurm_guard.store import Store

GROUP_S = 0.05
_MOST_IN_GROUP = 2000
_NONCE_AGE_MS = 15 * 60 * 1000
_REMEMBERED = 100_000


class _Waiting(NamedTuple):
    request: Request
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Taken]

    def settle(self, outcome: Taken | RefusalError) -> None:
        """In the loop: the waiting request gets its answer, unless it gave up."""
        if self.future.done():
            return
        if isinstance(outcome, RefusalError):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)


class Intake:
    """Takes requests of all nodes into one store."""

    def __init__(self, store: Store, alive_file: Path, take_over: TakeOver | None = None) -> None:
        self._store = store
        self._committer = Committer(store, take_over)
        self._alive = alive_file
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._backlog = 0
        self._recent: OrderedDict[bytes, None] = OrderedDict()
        self._next_care = 0.0
        self._care_problem = ""
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="intake", daemon=True)

    @property
    def backlog(self) -> int:
        """Records that wait for the store."""
        return self._backlog

    @property
    def failing(self) -> str:
        """Why the store takes nothing; empty while it does."""
        return self._committer.failing or self._care_problem

    def start(self) -> None:
        """Start writing; the dead man's file is there when this returns. Raises StoreError or OSError."""
        self._care()
        self._thread.start()

    def close(self) -> None:
        """Write what is waiting, then end."""
        self._closing = True
        self._queue.put(None)
        if self._thread.ident is not None:
            self._thread.join()

    def was_used(self, nonce: bytes) -> bool:
        """True if this collector took that nonce lately; whether another did, the commit decides."""
        return nonce in self._recent

    async def take(self, request: Request) -> Taken:
        """Commit a request. Raises RefusalError: 409 for a used nonce, 503 if the store cannot take it."""
        count = len(request.records)
        if self._closing or self._backlog + count > MOST_WAITING:
            raise later("the store is behind; send this again later")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Taken] = loop.create_future()
        self._backlog += count
        self._queue.put(_Waiting(request, loop, future))
        try:
            async with asyncio.timeout(COMMIT_WAIT_S):
                return await future
        except TimeoutError:
            raise later("the store is slow; send this again later") from None
        finally:
            self._backlog -= count

    def _run(self) -> None:
        going = True
        while going:
            group, going = self._gather()
            if group:
                self._take_group(group)
            if time.monotonic() >= self._next_care:
                self._try_care()

    def _gather(self) -> tuple[list[_Waiting], bool]:
        """What came within a moment; False once there will be no more."""
        group: list[_Waiting] = []
        count, end = 0, time.monotonic() + 1.0
        while count < _MOST_IN_GROUP:
            try:
                one = self._queue.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                break
            if one is None:
                return group, False
            if not group:
                end = time.monotonic() + GROUP_S
            if not one.future.done():  # else nobody waits for it any more: it will be sent again
                group.append(one)
                count += 1 + len(one.request.records)
        return group, True

    def _take_group(self, group: list[_Waiting]) -> None:
        outcomes = self._committer.commit([one.request for one in group])

        def settle() -> None:
            for one, outcome in zip(group, outcomes, strict=True):
                one.settle(outcome)

        for one, outcome in zip(group, outcomes, strict=True):
            if not isinstance(outcome, RefusalError):
                self._recent[one.request.nonce] = None
        while len(self._recent) > _REMEMBERED:
            self._recent.popitem(last=False)
        with suppress(RuntimeError):  # the loop was closed at last: they are sent again
            group[0].loop.call_soon_threadsafe(settle)

    def _try_care(self) -> None:
        try:
            self._care()
        except (StoreError, OSError) as error:
            self._care_problem = str(error)

    def _care(self) -> None:
        """Forget old nonces, which also proves that the store can be written; then say that we are alive."""
        self._next_care = time.monotonic() + alive.EVERY_S
        with self._store.write() as connection:
            nonces.forget(connection, round(time.time() * 1000) - _NONCE_AGE_MS)
        alive.touch(self._alive)
        self._committer.failing = self._care_problem = ""
