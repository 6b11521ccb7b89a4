"""A node speaks from its own addresses only."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.collector import origins
from slurm_guard.collector.answers import RefusalError
from slurm_guard.collector.origins import Origins, address_of, is_own
from slurm_guard.core.errors import SlurmUnreachableError

SLURM = {
    "n1": ("10.0.0.1", "rack-n1"),
    "n2": ("n2-hsn", "n2"),
    "n3": ("127.0.0.1", "n3"),
    "n4": ("nowhere", "nowhere"),
}
NAMES = {"rack-n1": ["10.9.0.1"], "n2-hsn": ["10.0.0.2", "fd00::2"], "n2": [], "n3": []}


class World:
    """Slurm, a resolver and a clock that count how often they are asked."""

    def __init__(self) -> None:
        self.slurm: dict[str, tuple[str, ...]] = dict(SLURM)
        self.names: dict[str, list[str]] = dict(NAMES)
        self.now = 1000.0
        self.asked: list[str] = []
        self.down = False

    def ask(self) -> dict[str, tuple[str, ...]]:
        self.asked.append("slurm")
        if self.down:
            raise SlurmUnreachableError("slurmctld gave no answer")
        return self.slurm

    def resolve(self, name: str) -> set[Any]:
        numeric = address_of(name)
        if numeric is not None:
            return {numeric}
        self.asked.append(name)
        return {ip_address(one) for one in self.names.get(name, [])}


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def asked(world: World) -> Iterator[Any]:
    """Ask; the status of the refusal, or 200."""
    made = Origins(world.ask, {"f[1-2]": ["192.0.2.0/24", "fd00::9"]}, world.resolve, lambda: world.now)

    async def several(node: str, *addresses: str) -> int:
        try:
            await made.require(node, addresses)
        except RefusalError as error:
            return error.status
        return 200

    def ask(node: str, *addresses: str) -> int:
        return asyncio.run(several(node, *addresses))

    yield ask
    made.close()


@pytest.mark.parametrize(
    ("node", "addresses", "status"),
    [
        ("n1", ("10.0.0.1",), 200),
        ("n1", ("::ffff:10.0.0.1",), 200),
        ("n1", ("10.9.0.1",), 200),
        ("n1", ("10.0.0.1", "10.9.0.1"), 200),
        ("n1", ("10.0.0.1", "10.0.0.2"), 403),
        ("n1", ("10.0.0.2",), 403),
        ("n1", ("127.0.0.1",), 403),
        ("n1", (), 403),
        ("n1", ("testclient",), 403),
        ("n2", ("10.0.0.2",), 200),
        ("n2", ("fd00::2%eth0",), 200),
        ("n3", ("127.0.0.1",), 200),
        ("n3", ("127.0.0.2",), 200),
        ("n3", ("192.0.2.1",), 403),
        ("n4", ("10.0.0.4",), 503),
        ("n9", ("10.0.0.9",), 403),
        ("f1", ("192.0.2.77",), 200),
        ("f2", ("fd00::9",), 200),
        ("f2", ("192.0.3.1",), 403),
        ("f2", (), 403),
    ],
)
def test_whose_address_it_is(asked: Any, node: str, addresses: tuple[str, ...], status: int) -> None:
    assert asked(node, *addresses) == status


def test_the_admins_table_needs_no_slurm(asked: Any, world: World) -> None:
    assert asked("f1", "192.0.2.1") == 200
    assert world.asked == []


def test_what_is_known_is_kept_for_a_while(asked: Any, world: World) -> None:
    for _ in range(5):
        assert asked("n1", "10.0.0.1") == 200
    assert world.asked == ["slurm", "rack-n1"]
    world.now += origins.REFRESH_S
    assert asked("n1", "10.0.0.1") == 200
    assert world.asked == ["slurm", "rack-n1"] * 2


def test_a_moved_node_is_found_soon_but_nobody_makes_us_ask_often(asked: Any, world: World) -> None:
    assert asked("n1", "10.0.0.1") == 200
    world.slurm["n1"] = ("10.0.0.77", "rack-n1")
    for _ in range(9):
        assert asked("n1", "10.0.0.77") == 403
    assert world.asked.count("slurm") == 1
    world.now += origins.RETRY_S
    assert asked("n1", "10.0.0.77") == 200
    assert asked("n1", "10.0.0.1") == 403
    assert world.asked.count("slurm") == 2


def test_a_node_that_slurm_forgot_is_unknown(asked: Any, world: World) -> None:
    assert asked("n1", "10.0.0.1") == 200
    del world.slurm["n1"]
    world.now += origins.REFRESH_S
    assert asked("n1", "10.0.0.1") == 403


def test_without_slurm_nobody_is_let_in_and_who_was_known_still_is(asked: Any, world: World) -> None:
    world.down = True
    assert asked("n1", "10.0.0.1") == 503
    assert asked("n1", "10.0.0.1") == 503
    assert world.asked == ["slurm"]
    world.down, world.now = False, world.now + origins.RETRY_S
    assert asked("n1", "10.0.0.1") == 200
    world.down, world.now = True, world.now + 2 * origins.REFRESH_S
    assert asked("n1", "10.0.0.1") == 200


def test_without_a_resolver_what_was_known_still_is(asked: Any, world: World) -> None:
    assert asked("n2", "10.0.0.2") == 200
    world.names, world.now = {}, world.now + origins.REFRESH_S
    asked_before = len(world.asked)
    for _ in range(5):
        assert asked("n2", "10.0.0.2") == 200
    assert len(world.asked) == asked_before + 3  # slurm and two names, once


def test_a_slow_slurm_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origins, "LOOKUP_S", 0.05)
    answer = threading.Event()

    def slow() -> dict[str, tuple[str, ...]]:
        answer.wait(20)
        return dict(SLURM)

    made = Origins(slow)

    async def ask_and_end() -> int:
        try:
            await made.require("n1", ["10.0.0.1"])
        except RefusalError as error:
            return error.status
        finally:
            answer.set()
        return 200

    assert asyncio.run(ask_and_end()) == 503
    made.close()


def test_own_addresses() -> None:
    assert is_own(ip_address("127.0.0.1"))
    assert not is_own(ip_address("192.0.2.1"))
    assert not is_own(ip_address("0.0.0.0"))


@given(st.text(max_size=40) | st.ip_addresses().map(str))
def test_any_text_is_an_address_or_none(text: str) -> None:
    found = address_of(text)
    assert found is None or address_of(str(found)) == found


@pytest.mark.parametrize("name", ["", "no such host.invalid", "\0", "a" * 300, "é" * 100, "x..y"])
def test_no_name_breaks_the_resolver(name: str) -> None:
    assert origins.resolved(name) == set()
