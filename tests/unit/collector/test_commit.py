"""Requests in one transaction: what is acknowledged is stored, and one bad request harms no other."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from slurm_guard.collector import alive, limits
from slurm_guard.collector.answers import RefusalError
from slurm_guard.collector.commit import Committer, Request, Taken
from slurm_guard.collector.intake import Intake
from slurm_guard.collector.service import Collector
from slurm_guard.core.errors import StoreError
from slurm_guard.store import Store, open_store, senders
from slurm_guard.store.record import Record, parse
from slurm_guard.store.writer import Writer
from tests.unit.collector.kit import Ask, body_of, client, record, running, settings_in


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def records(count: int, node: str = "n1") -> tuple[Record, ...]:
    return tuple(parse(json.dumps(record(node)).encode()) for _ in range(count))


def request(count: int = 1, node: str = "n1", **more: Any) -> Request:
    return Request(os.urandom(16), 1000, node, "lab", "10.0.0.1", records(count, node))._replace(**more)


def count(store: Store, table: str) -> int:
    with store.read() as connection:
        found: int = connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()
        return found


def test_a_group_is_stored_and_each_is_told_its_own(store: Store) -> None:
    one, two = request(2), request(1, "n2")
    again = request(1, records=one.records[:1])
    other = parse(json.dumps({**two.records[0].data, "uptime_s": 7}).encode())
    conflict = request(0, "n2", records=(other, *records(1, "n2")))
    outcomes = Committer(store).commit([one, two, again, conflict])
    why = "another record with this run_id is in the store"
    assert outcomes == [
        Taken([0, 1], [], []),
        Taken([0], [], []),
        Taken([0], [], []),
        Taken([1], [(0, why)], []),
    ]
    assert count(store, "runs") == 4
    assert [row["node"] for row in senders.listed(store, "lab")] == ["n1", "n2"]


def test_a_nonce_twice_is_a_replay_within_a_group_and_later(store: Store) -> None:
    committer, one = Committer(store), request()
    first, second = committer.commit([one, request(nonce=one.nonce)])
    (third,) = committer.commit([request(nonce=one.nonce)])
    assert isinstance(first, Taken)
    assert [error.status for error in (second, third) if isinstance(error, RefusalError)] == [409, 409]
    assert count(store, "runs") == 1


def test_a_request_without_a_node_is_heard_of_nobody(store: Store) -> None:
    assert Committer(store).commit([request(0, "")]) == [Taken([], [], [])]
    assert senders.listed(store) == []


class PoisonError(Exception):
    """What nobody foresaw."""


@pytest.mark.parametrize(
    "error", [PoisonError("bang"), sqlite3.IntegrityError("no"), sqlite3.DataError("too big")]
)
def test_what_cannot_be_stored_harms_nothing_else(
    store: Store, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    bad = request(3)
    poison = bad.records[1].run_id
    sort = Writer._sort

    def sorting(self: Writer, chunk: list[Any], *rest: Any) -> None:
        if any(one.run_id == poison for one in chunk):
            raise error
        sort(self, chunk, *rest)

    monkeypatch.setattr(Writer, "_sort", sorting)
    good = request(2, "n2")
    taken, mixed = Committer(store).commit([good, bad])
    assert taken == Taken([0, 1], [], [])
    assert isinstance(mixed, Taken)
    assert mixed.acknowledged == [0, 2]
    assert [position for position, _ in mixed.refused] == [1]
    assert str(error) in mixed.refused[0][1]
    assert count(store, "runs") == 4


def test_a_store_that_fails_takes_nothing_and_says_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    committer, one = Committer(store), request()
    with monkeypatch.context() as patch:
        patch.setattr(Store, "write", _full)
        (outcome,) = committer.commit([one])
    assert isinstance(outcome, RefusalError)
    assert (outcome.status, outcome.retry_after) == (503, 30.0)
    assert "disk is full" in committer.failing
    assert committer.commit([one]) == [Taken([0], [], [])]
    assert committer.failing == ""


def _full(_self: Store) -> Any:
    raise StoreError("/x: the disk is full")


def test_what_is_taken_over_is_decided_in_the_same_transaction(store: Store) -> None:
    seen: list[tuple[str, list[str]]] = []

    def take_over(connection: Connection, asked: Request, found: list[Record]) -> list[str]:
        connection.exec_driver_sql("INSERT INTO series (name) VALUES (?)", (asked.node,))
        seen.append((asked.node, [one.data["run_id"] for one in found]))
        return [found[0].data["run_id"]]

    committer, one = Committer(store, take_over), request(2)
    (first,) = committer.commit([one])
    assert isinstance(first, Taken)
    assert first.takes_over == [one.records[0].data["run_id"]]
    (empty,) = committer.commit([request(0)])
    assert isinstance(empty, Taken)
    assert empty.takes_over == []
    assert seen == [("n1", [one.data["run_id"] for one in one.records])]


def test_a_take_over_that_breaks_costs_no_record(store: Store) -> None:
    def take_over(_connection: Connection, _asked: Request, _found: list[Record]) -> list[str]:
        raise PoisonError("bang")

    (outcome,) = Committer(store, take_over).commit([request(2)])
    assert outcome == Taken([0, 1], [], [])


def test_requests_that_come_together_share_a_commit(store: Store, tmp_path: Path) -> None:
    intake = Intake(store, tmp_path / "alive")
    sizes: list[int] = []
    commit = intake._committer.commit

    def counted(group: list[Request]) -> list[Taken | RefusalError]:
        sizes.append(len(group))
        return commit(group)

    intake._committer.commit = counted  # type: ignore[method-assign]
    intake.start()

    async def ask() -> list[Taken]:
        return await asyncio.gather(*(intake.take(request()) for _ in range(50)))

    assert asyncio.run(ask()) == [Taken([0], [], [])] * 50
    intake.close()
    assert sum(sizes) == 50
    assert len(sizes) < 10
    assert intake.backlog == 0


def test_a_full_queue_says_when_to_come_back(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurm_guard.collector.intake.MOST_WAITING", 3)
    monkeypatch.setattr("slurm_guard.collector.intake.COMMIT_WAIT_S", 0.05)
    intake = Intake(store, tmp_path / "alive")
    go = threading.Event()
    commit = intake._committer.commit

    def slow(group: list[Request]) -> list[Taken | RefusalError]:
        go.wait(20)
        return commit(group)

    intake._committer.commit = slow  # type: ignore[method-assign]
    intake.start()

    async def ask() -> list[Any]:
        return await asyncio.gather(*(intake.take(request(2)) for _ in range(2)), return_exceptions=True)

    told = asyncio.run(ask())
    go.set()
    intake.close()
    assert ["slow" in str(told[0]), "behind" in str(told[1])] == [True, True]
    assert [one.status for one in told] == [503, 503]
    assert intake.backlog == 0


def test_what_waits_at_the_end_is_committed(store: Store, tmp_path: Path) -> None:
    intake = Intake(store, tmp_path / "alive")
    intake.start()

    async def ask() -> Taken:
        waiting = asyncio.create_task(intake.take(request(3)))
        await asyncio.sleep(0)
        await asyncio.to_thread(intake.close)
        return await waiting

    assert asyncio.run(ask()) == Taken([0, 1, 2], [], [])
    assert count(store, "runs") == 3
    with pytest.raises(RefusalError, match="behind"):
        asyncio.run(intake.take(request()))


def test_the_dead_mans_file_is_touched_only_while_records_can_be_written(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alive, "EVERY_S", 0.0)
    path = tmp_path / "alive"
    intake = Intake(store, path)
    intake.start()
    os.utime(path, (1, 1))
    wait_for(lambda: path.stat().st_mtime > 1)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "write", _full)
        wait_for(lambda: bool(intake.failing))
        os.utime(path, (1, 1))
        asyncio.run(_refused(intake))
        assert path.stat().st_mtime == 1
    wait_for(lambda: path.stat().st_mtime > 1 and not intake.failing)
    intake.close()


async def _refused(intake: Intake) -> None:
    with pytest.raises(RefusalError, match="takes nothing"):
        await intake.take(request())


def wait_for(done: Any, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_health_is_told_on_this_host_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(settings_in(tmp_path)) as collector:
        reply = client(collector, "127.0.0.1").get("/v1/health")
        assert (reply.status_code, reply.json()["ok"], reply.json()["backlog"]) == (200, True, 0)
        assert client(collector, "::1").get("/v1/health").status_code == 200
        assert client(collector).get("/v1/health").status_code == 403
        collector.intake._committer.failing = "the disk is full"
        reply = client(collector, "127.0.0.1").get("/v1/health")
        assert (reply.status_code, reply.json()["store"]) == (503, "the disk is full")


def test_two_collectors_on_one_store(tmp_path: Path) -> None:
    """Records of many nodes, each sent to both at once, and one nonce to both."""
    with running(settings_in(tmp_path)) as one, running(settings_in(tmp_path)) as other:
        answers: list[tuple[str, int, int]] = []

        def send(collector: Collector, bodies: list[bytes], nonces: list[str]) -> None:
            to = client(collector)
            for body, nonce in zip(bodies, nonces, strict=True):
                reply = Ask(body=body).send(to)
                answers.append(("record", reply.status_code, len(reply.json()["acknowledged"])))
                reply = Ask(body=b"", payload={"nonce": nonce}).send(to)
                answers.append((nonce, reply.status_code, 0))

        bodies = [body_of(record(), record()) for _ in range(15)]
        nonces = [os.urandom(16).hex() for _ in bodies]
        threads = [threading.Thread(target=send, args=(which, bodies, nonces)) for which in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [answer for answer in answers if answer[0] == "record"] == [("record", 200, 2)] * 30
        for nonce in nonces:
            assert sorted(status for name, status, _ in answers if name == nonce) == [200, 409]
        assert count(one.store, "runs") == 30


def test_limits_fit_together() -> None:
    """A whole request fits into what may wait, and its body into the room for bodies."""
    assert limits.MOST_RECORDS <= limits.MOST_WAITING
    assert limits.LARGEST_BODY <= limits.ROOM
