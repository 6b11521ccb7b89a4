"""Nonces are used once, whoever asks; senders are heard, fall silent and are heard again."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_guard.store import Store, nonces, open_store, schema_central, senders
from slurm_guard.store.record import parse
from tests.unit.store.factory import run

ONE, OTHER = b"\x01" * 16, b"\x02" * 16


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def test_a_nonce_is_used_once(store: Store) -> None:
    assert nonces.use(store, ONE, "n1", 1000)
    assert not nonces.use(store, ONE, "n1", 2000)
    assert not nonces.use(store, ONE, "n2", 2000)
    assert nonces.use(store, OTHER, "n1", 2000)


def test_a_nonce_of_a_transaction_that_failed_was_not_used(store: Store) -> None:
    def use_and_fail() -> None:
        with store.write() as connection:
            assert nonces.use_within(connection, ONE, "n1", 1000)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        use_and_fail()
    assert nonces.use(store, ONE, "n1", 1000)


def test_only_one_of_two_programs_gets_a_nonce(store: Store) -> None:
    wins: list[int] = []

    def work(number: int) -> None:
        with open_store(store.path) as other:
            wins.extend(number for turn in range(20) if nonces.use(other, turn.to_bytes(16, "big"), "n1", 0))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wins) == 20


def test_old_nonces_go_in_portions(store: Store) -> None:
    for number in range(5):
        nonces.use(store, bytes([number]) * 16, "n1", number)
    with store.write() as connection:
        assert nonces.forget(connection, before=4, most=3) == 3
        assert nonces.forget(connection, before=4, most=3) == 1
        assert nonces.forget(connection, before=4, most=3) == 0
        assert nonces.is_used(connection, b"\x04" * 16)
        assert not nonces.is_used(connection, b"\x00" * 16)


def test_a_store_of_before_gets_the_tables(store: Store) -> None:
    plain = sqlite3.connect(store.path)
    for table in schema_central.TABLES:
        plain.execute(f"DROP TABLE {table.name}")
    plain.commit()
    plain.close()
    schema_central.ensure(store)
    schema_central.ensure(store)
    assert nonces.use(store, ONE, "n1", 1)


def heard(store: Store, *what: senders.Heard) -> dict[str, object]:
    with store.write() as connection:
        senders.note(connection, what)
    (row,) = senders.listed(store)
    return row


def test_a_sender_is_what_its_newest_record_says(store: Store) -> None:
    old, new = run("healthcheck", "n1", 0), run("healthcheck", "n1", 5)
    new["machine"] = {"boot_id": "b2", "machine_id": "m2", "serial": "s"}
    new["plan"] = {"hash": "abcd", "state": "ok", "problem": ""}
    records = [parse(json.dumps(one).encode()) for one in (new, old)]
    row = heard(store, senders.of_records("lab", "n1", "10.0.0.1", 1000, records))
    assert (row["boot_id"], row["machine_id"], row["plan_hash"]) == ("b2", "m2", "abcd")
    assert (row["cluster"], row["address"], row["heard_at"]) == ("lab", "10.0.0.1", 1000)


def test_a_sender_without_records_keeps_what_is_known(store: Store) -> None:
    heard(store, senders.Heard("lab", "n1", "10.0.0.1", 1000, "b1", "m1", "abcd", "0.1"))
    row = heard(store, senders.of_records("lab", "n1", "10.0.0.9", 2000, []))
    assert (row["boot_id"], row["machine_id"], row["plan_hash"], row["guard_version"]) == (
        "b1", "m1", "abcd", "0.1",
    )  # fmt: skip
    assert (row["address"], row["heard_at"]) == ("10.0.0.9", 2000)


def test_silence_begins_once_and_ends_when_heard(store: Store) -> None:
    heard(store, senders.Heard("lab", "n1", "10.0.0.1", 1000))
    for at in (5000, 9000):
        with store.write() as connection:
            senders.mark_silent(connection, "lab", ["n1", "unheard"], at)
    assert senders.listed(store, "lab")[0]["silent_since"] == 5000
    assert senders.listed(store, "other") == []
    assert heard(store, senders.Heard("lab", "n1", "10.0.0.1", 9500))["silent_since"] is None
