"""Whatever happens in between: no admin is overruled, no budget passed in the end, each order ends once."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_guard.collector import judge
from slurm_guard.collector.node_plans import NodePlans
from slurm_guard.collector.orders_loop import OrdersLoop
from slurm_guard.slurm import states
from slurm_guard.store import Store, open_store
from slurm_guard.store.orders import ENDS
from tests.unit.collector.fake_slurm import Slurm, actions, asking, ends, loop_of, order_of, plan_in

SEEDS = range(2000 if os.environ.get("SOAK") else 40)
NAMES = [f"n{number}" for number in range(1, 25)]
MOST = 6
HOOKS_REASON = "SG:gpu_ecc.sram gpu0"
FAULTS = ["gpu_count.lost", "gpu_xid.79", "gpu_remap.failure"]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "SETTLE_MS", 0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


class Clock:
    """Seconds since 1970 that go on when a test says so."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "time", made)
    return made


class KilledError(BaseException):
    """The collector is gone."""


class Trouble:
    """An admin, hooks on nodes, a controller that falls silent, and kills, drawn by a seed.

    `words` are an admin's reasons, which must stand; `over` are (node, reason) of drains that an admin ended.
    """

    def __init__(self, slurm: Slurm, draw: random.Random) -> None:
        self.slurm, self.draw = slurm, draw
        self.words: dict[str, str] = {}
        self.over: set[tuple[str, str]] = set()
        slurm.before, slurm.after = self._before, self._after

    def _before(self, what: str) -> None:
        if what == "read":  # between a read and its update nobody is safe from Slurm
            self._act()
        if self.draw.random() < 0.08:
            raise KilledError
        self.slurm.silent = self.draw.random() < 0.08

    def _after(self, what: str) -> None:
        if what == "drain":
            self.slurm.drops_answers = self.draw.random() < 0.15
            self._act()
        if self.draw.random() < 0.08:
            raise KilledError

    def _act(self) -> None:
        name = self.draw.choice(NAMES)
        node, what = self.slurm.state[name], self.draw.random()
        if what < 0.15:
            self.slurm.drain_as(name, "DIMM swap", "ines")
            self.words[name] = "DIMM swap"
        elif what < 0.3 and "DRAIN" in node["flags"] and node["user"] == "root":
            self.slurm.drain_as(name, f"{node['reason']} CASE-7", "ines")
            self.words[name] = node["reason"]
        elif what < 0.5 and "DRAIN" in node["flags"] and node["user"] == "root":
            if node["reason"] != HOOKS_REASON:  # a hook may well drain again
                self.over.add((name, node["reason"]))
            self.slurm.resume_by_hand(name)
        elif what < 0.55 and "DRAIN" not in node["flags"] and self._out() < MOST and name not in self.words:
            self.slurm.drain_as(name, HOOKS_REASON, "root")

    def _out(self) -> int:
        return sum(bool(states.counts_against_budget(self.slurm._told(name))) for name in NAMES)

    def check(self) -> None:
        """What an admin said still stands."""
        for name, word in self.words.items():
            assert self.slurm.state[name]["reason"] == word
        for name, reason in self.over:
            node = self.slurm.state[name]
            assert not ("DRAIN" in node["flags"] and node["reason"] == reason), (name, reason)

    def edited(self) -> int:
        """Drains of ours that an admin made their own, perhaps before one past the budget was taken back."""
        return sum(word.endswith("CASE-7") for word in self.words.values())

    def end(self) -> None:
        """Nobody interferes any more."""
        self.slurm.before = self.slurm.after = lambda _what: None
        self.slurm.silent = self.slurm.drops_answers = False


def turn(loop: OrdersLoop) -> bool:
    """One round; False if the collector was killed in it."""
    try:
        loop._silent_until = 0.0
        loop.round()
    except KilledError:
        return False
    return True


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_is_overruled_and_nothing_is_lost(
    store: Store, tmp_path: Path, hours: Clock, seed: int
) -> None:
    draw, slurm = random.Random(seed), Slurm(*NAMES)
    plans = plan_in(tmp_path, nodes=MOST, nodes_per_job=0, nodes_per_user=0)
    trouble, loop = Trouble(slurm, draw), loop_of(store, slurm, plans)
    for _ in range(6):
        for name in draw.sample(NAMES, 3):
            order_of(store, asking(name, draw.choice(FAULTS), jobs={draw.randrange(99): 4000}))
        for _ in range(2):
            hours.now += 11
            if not turn(loop):
                loop.leader.give_up()  # its lease has run out
                loop = loop_of(store, slurm, plans)
            trouble.check()
    trouble.end()
    _last_rounds(store, slurm, loop, plans)
    trouble.check()
    assert trouble._out() - trouble.edited() <= MOST
    assert {state for _, state, _ in ends(store)} <= set(ENDS)
    done = [one for one in actions(store) if one[2] != "withdrawn" or one[1] == "drain"]
    assert len(done) == len(ends(store))
    assert slurm.writes() or trouble._out() >= MOST


def _last_rounds(store: Store, slurm: Slurm, loop: OrdersLoop, plans: NodePlans) -> None:
    loop.leader.give_up()
    last = loop_of(store, slurm, plans)
    for _ in range(len(NAMES)):
        turn(last)
