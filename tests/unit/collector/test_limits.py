"""Rates and room: bounded for everybody, and given back."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

import pytest
from httpx2 import ASGITransport, AsyncClient
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.collector import app, limits
from slurm_guard.collector.answers import RefusalError
from slurm_guard.collector.claims import Claim
from slurm_guard.collector.limits import Rate, Room
from slurm_guard.collector.proof import Proof, Signed
from tests.unit.collector.kit import HERE, THERE, Ask, client, running, settings_in


def test_a_rate_lets_through_what_it_says() -> None:
    rate = Rate(60)
    assert [rate.take("n1", 0.0) for _ in range(60)] == [0.0] * 60
    assert rate.take("n1", 0.0) == pytest.approx(1.0)
    assert rate.take("n2", 0.0) == 0.0
    assert rate.take("n1", 1.01) == 0.0
    assert rate.take("n1", 1.01) > 0


def test_a_rate_forgets_the_oldest_key_only() -> None:
    rate = Rate(1, most_keys=3)
    for key in "abcd":
        assert rate.take(key, 0.0) == 0.0
    assert rate.take("b", 0.0) > 0
    assert rate.take("a", 0.0) == 0.0


@given(st.lists(st.floats(0, 5), min_size=1, max_size=200), st.integers(1, 30))
def test_never_more_than_a_minute_s_share_and_a_burst(pauses: list[float], per_minute: int) -> None:
    rate, now, taken = Rate(per_minute), 0.0, 0
    for pause in pauses:
        now += pause
        taken += rate.take("n1", now) == 0
    assert taken <= per_minute + per_minute * now / 60 + 1


def test_room_is_given_in_order_and_given_back() -> None:
    async def play() -> list[str]:
        room, told = Room(10, patience_s=5), []

        async def use(name: str, size: int, release: asyncio.Event) -> None:
            async with room.taken(size):
                told.append(name)
                await release.wait()

        first, rest = asyncio.Event(), asyncio.Event()
        rest.set()
        tasks = [asyncio.create_task(use("large", 8, first))]
        await asyncio.sleep(0)
        tasks += [asyncio.create_task(use(name, size, rest)) for name, size in (("wide", 9), ("small", 1))]
        await asyncio.sleep(0)
        assert told == ["large"]  # the small one does not overtake
        first.set()
        await asyncio.gather(*tasks)
        async with room.taken(10):
            told.append("all of it")
        return told

    assert asyncio.run(play()) == ["large", "wide", "small", "all of it"]


def test_who_waits_too_long_is_told_and_leaks_nothing() -> None:
    async def play() -> None:
        room = Room(10, patience_s=0.02)
        async with room.taken(10):
            for _ in range(3):
                with pytest.raises(RefusalError, match="many nodes") as caught:
                    async with room.taken(1):
                        pass
                assert caught.value.status == 503
            task = asyncio.create_task(_take(room, 5))
            await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        async with room.taken(10):
            pass

    asyncio.run(play())


async def _take(room: Room, size: int) -> None:
    async with room.taken(size):
        pass


def test_a_node_that_asks_too_often_is_told_to_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PER_NODE", 3)
    with running(settings_in(tmp_path)) as collector:
        here, there = client(collector), client(collector, THERE)
        assert [Ask().send(here).status_code for _ in range(4)] == [200, 200, 200, 429]
        assert int(Ask().send(here).headers["Retry-After"]) >= 1
        assert Ask(node="n2").send(there).status_code == 200


class CountingProof:
    """Counts how many signatures are looked at at once."""

    def __init__(self, proof: Proof) -> None:
        self._proof = proof
        self.now = self.most = 0

    def check(self, claim: Claim) -> Signed:
        self.now += 1
        self.most = max(self.most, self.now)
        time.sleep(0.01)
        try:
            return self._proof.check(claim)
        finally:
            self.now -= 1

    def sign(self, payload: bytes) -> str:
        return self._proof.sign(payload)


def test_an_address_that_is_refused_often_waits_in_line_and_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FAILURES_PER_ADDRESS", 3)
    with running(settings_in(tmp_path)) as collector:
        counting = CountingProof(collector.gate._proof)
        collector.gate._proof = counting
        here = AsyncClient(
            transport=ASGITransport(app.build(collector), client=(HERE, 1)), base_url="http://h"
        )

        async def send(ask: Ask) -> int:
            made = await here.request(ask.method, ask.path, headers=ask.signed(), content=ask.body)
            return made.status_code

        async def flood() -> list[int]:
            bad = [Ask(token=b"x" * 40) for _ in range(40)]
            return await asyncio.gather(*map(send, [*bad, Ask()]))

        async def play() -> tuple[list[int], list[int], int]:
            first = [await send(Ask(token=b"x" * 40)) for _ in range(4)]
            counting.most = 0
            then = await flood()
            return first, then, counting.most

        first, then, at_once = asyncio.run(play())
        assert first == [401] * 4
        assert then == [401] * 40 + [200]
        assert at_once == 1
        assert Ask(node="n2").send(client(collector, THERE)).status_code == 200
