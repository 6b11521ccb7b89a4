"""Rates and room: bounded for everybody, and given back."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.collector import limits
from slurm_guard.collector.answers import RefusalError
from slurm_guard.collector.limits import Rate, Room
from tests.unit.collector.kit import THERE, Ask, client, running, settings_in


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


def test_an_address_that_is_refused_too_often_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FAILURES_PER_ADDRESS", 3)
    with running(settings_in(tmp_path)) as collector:
        here, there = client(collector), client(collector, THERE)
        bad = [Ask(token=b"x" * 40).send(here).status_code for _ in range(5)]
        assert bad == [401, 401, 401, 429, 429]
        assert Ask().send(here).status_code == 429
        assert Ask(node="n2").send(there).status_code == 200
