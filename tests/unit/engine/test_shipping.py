"""Hooks that ship: from a child that nobody waits for, seldom, and with nothing lost whatever is killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_guard.core.context import Context
from slurm_guard.core.paths import Places
from slurm_guard.core.plan import Plan
from slurm_guard.engine import files, requests, settle, ship_state, shipping, spool
from slurm_guard.engine.destination import destination
from slurm_guard.engine.run import Run
from slurm_guard.engine.run_once import RunOutcome
from tests.unit.engine.collector import Collector, token_file
from tests.unit.engine.conftest import CHECKOUT, NodeRoot

BOOT = "5e0c1b5e-0000-4000-8000-00000000000a"


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    yield found
    found.stop()
    assert found.problems == []


def until(condition: Callable[[], Any], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.01)


def send_to(root: Path, url: str, **settings: Any) -> None:
    """What an admin writes on a node that has no plan yet."""
    token_file(root)
    settings = {"url": url, "token_file": "/etc/slurm-guard/token", "jitter_s": 0, **settings}
    (root / "etc/slurm-guard/node.json").write_text(json.dumps({"collector": settings}))


def idle(root: Path) -> bool:
    """True when no shipper of this node is at work."""
    places = Places(str(root))
    return not any(shipping.is_held(places.lock(name)) for name in ("ship-wait", "ship"))


def a_run(root: Path, **settings: Any) -> Run:
    """A run of a healthcheck, as it is when its record is written."""
    outcome = RunOutcome()
    outcome.boot_id = BOOT
    return Run(Places(str(root)), Plan({"collector": settings}, "n1"), Context("healthcheck", {}), outcome)


def test_a_hook_s_record_reaches_the_collector(node: NodeRoot, collector: Collector) -> None:
    send_to(node.root, collector.url)
    assert node.run("prolog", 7).returncode == 0
    until(lambda: collector.store and not node.records())
    (line,) = collector.store.values()
    found = json.loads(line)
    assert (found["node"], found["hook"], found["allocation"]["job_id"]) == ("n1", "prolog", 7)
    assert node.log == []


@pytest.mark.parametrize("hook", ["prolog", "epilog", "healthcheck"])
def test_no_hook_waits_for_a_collector_that_hangs(node: NodeRoot, collector: Collector, hook: str) -> None:
    send_to(node.root, collector.url)
    collector.script.append("hang")
    assert node.run(hook, None if hook == "healthcheck" else 7).returncode == 0
    until(lambda: collector.requests)
    assert not idle(node.root), "the hook is over, and its shipper still waits for an answer"
    collector.stopped.set()
    until(lambda: idle(node.root))
    assert len(node.records()) == 1


def test_a_collector_that_is_not_there_is_told_once(node: NodeRoot) -> None:
    send_to(node.root, "http://127.0.0.1:1")
    for job in (7, 8, 9):
        assert node.run("prolog", job).returncode == 0
        until(lambda: ship_state.load(Places(str(node.root))).tries and idle(node.root))
    assert node.said("records stay here for now: 127.0.0.1:1: Connection refused")
    assert len([line for line in node.log if "records stay" in line]) == 1
    assert ship_state.load(Places(str(node.root))).tries == 1, "the pause held the next two back"
    assert len(node.records()) == 3


def test_it_goes_on_after_the_pause_and_says_so(node: NodeRoot, collector: Collector) -> None:
    send_to(node.root, "http://127.0.0.1:1")
    node.run("prolog", 7)
    places = Places(str(node.root))
    until(lambda: ship_state.load(places).tries and idle(node.root))
    state = ship_state.load(places)
    state.next = 0.0
    ship_state.save(places, state)
    send_to(node.root, collector.url)
    node.run("epilog", 7)
    until(lambda: len(collector.store) == 2 and not node.records())
    assert node.said("records are sent again: 2 acknowledged")


def test_a_storm_of_short_jobs_costs_few_shipments(node: NodeRoot, collector: Collector) -> None:
    """Fifteen hooks within the jitter of one shipment; every record arrives all the same."""
    send_to(node.root, collector.url, jitter_s=300)
    places = Places(str(node.root))
    files.make_folder(places.run)
    gate = files.try_lock(places.lock("ship-wait"))  # this test is the child that waits
    assert gate is not None
    for job in range(15):
        node.run("prolog", job)
    assert collector.requests == []
    os.close(gate)
    send_to(node.root, collector.url)
    node.run("epilog", 1)
    until(lambda: len(collector.store) == 16)
    assert len(collector.requests) == 1


def test_shipments_keep_their_distance(tmp_path: Path) -> None:
    state = ship_state.ShipState({"last": time.monotonic()})
    assert 4 < state.gap_s(5.0) <= 5
    state.last -= 6
    assert state.gap_s(5.0) == 0


@pytest.mark.parametrize("switch", ["etc/slurm-guard/disabled", "run/slurm-guard/disabled"])
def test_a_kill_switch_that_was_thrown_meanwhile_is_obeyed(
    node: NodeRoot, collector: Collector, switch: str
) -> None:
    send_to(node.root, collector.url)
    this = a_run(node.root)
    spool.write(this.places, {"run_id": "a" * 32, "hook": "prolog"}, this.plan.spool)
    (node.root / switch).parent.mkdir(parents=True, exist_ok=True)
    (node.root / switch).touch()
    shipping._ship(this, destination(this.places, this.plan))  # type: ignore[arg-type]
    assert collector.requests == []


WANTED = [
    ("nothing is configured", {}, True, False),
    ("nothing waits", {"url": "http://head"}, False, False),
    ("a record waits", {"url": "http://head"}, True, True),
    ("an address of another type", {"url": 7}, True, False),
    ("a table of another type", [], True, False),
]


@pytest.mark.parametrize(("case", "settings", "waits", "forks"), WANTED, ids=[row[0] for row in WANTED])
def test_a_child_is_made_only_for_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, settings: Any, waits: bool, forks: bool
) -> None:
    made: list[Any] = []
    monkeypatch.setattr("slurm_guard.engine.child.detach", made.append)
    (tmp_path / "etc/slurm-guard").mkdir(parents=True)
    (tmp_path / "etc/slurm-guard/node.json").write_text(json.dumps({"collector": settings}))
    this = a_run(tmp_path)
    if waits:
        spool.write(this.places, {"run_id": "a" * 32, "hook": "prolog"}, this.plan.spool)
    shipping.later(this)
    assert bool(made) is forks


HOLDER = """
import sys
from slurm_guard.engine import files
held = files.try_lock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_is_seen_without_being_taken(tmp_path: Path) -> None:
    lock = str(tmp_path / "x.lock")
    assert not shipping.is_held(lock)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, lock], cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert shipping.is_held(lock)
        assert files.try_lock(lock) is None
        holder.communicate()
    assert not shipping.is_held(lock)


def test_node_json_wins_over_the_plan_and_wrong_types_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "etc/slurm-guard").mkdir(parents=True)
    by_hand = {
        "url": "https://mine",
        "uids": [5, "6", True, None],
        "jitter_s": -1,
        "acting": "yes",
        "ca_file": 3,
    }
    (tmp_path / "etc/slurm-guard/node.json").write_text(json.dumps({"collector": by_hand}))
    plan = Plan({"collector": {"url": "https://plan", "token_file": "/etc/t", "munge_socket": "/s"}}, "n1")
    found = destination(Places(str(tmp_path)), plan)
    assert found is not None
    assert (found.url, found.uids, found.jitter_s, found.acting) == ("https://mine", [5], 5.0, False)
    assert (found.ca_file, found.token_file, found.munge_socket) == ("", str(tmp_path / "etc/t"), "/s")


@pytest.mark.parametrize(
    ("word", "acting", "left", "asked"),
    [
        (None, True, 0, 1),
        (None, False, 1, 0),
        ("dropped", True, 1, 1),
        ("lost", True, 1, 1),
        ((503, {}), True, 1, 1),
    ],
)
def test_where_the_collector_acts_it_is_asked_first(
    node: NodeRoot, collector: Collector, word: Any, acting: bool, left: int, asked: int
) -> None:
    """Without its word the request stays, and the node acts by itself."""
    settings = {"url": collector.url, "token_file": "/etc/slurm-guard/token", "acting": acting}
    token_file(node.root)
    this = a_run(node.root, **settings)
    run_id = this.outcome.run_id
    spool.write(this.places, {"run_id": run_id, "hook": "healthcheck"}, this.plan.spool)
    wanted = {"fault": "gpu_xid.79", "device": "gpu1", "scope": "device", "reason": "SG:gpu_xid.79 gpu1"}
    requests.put(this.places, requests.make("drain", boot_id=BOOT, run_id=run_id, **wanted))
    collector.takes_over.add(run_id)
    collector.script.extend([] if word is None else [word])
    shipping.hand_over(this)
    assert len(requests.waiting(this.places, BOOT)) == left
    assert len(collector.requests) == asked


def test_a_collector_that_is_known_to_be_silent_is_not_asked(node: NodeRoot, collector: Collector) -> None:
    this = a_run(node.root, url=collector.url, acting=True)
    state = ship_state.ShipState()
    state.failed("no answer", None)
    ship_state.save(this.places, state)
    shipping.hand_over(this)
    assert collector.requests == []


SHIP = """
import sys
from slurm_guard.core.paths import Places
from slurm_guard.core.plan import Plan
from slurm_guard.engine import ship
from slurm_guard.engine.destination import destination
places, plan = Places(sys.argv[1]), Plan({}, "n1")
print("ready", flush=True)
ship.ship(places, plan, destination(places, plan))
"""


def test_kill_9_at_any_moment_loses_and_doubles_nothing(node: NodeRoot, collector: Collector) -> None:
    """The shipper is killed a random time after it began; then once more, until all has arrived."""
    draw = random.Random(7)
    send_to(node.root, collector.url)
    places, wanted, refused = Places(str(node.root)), set(), set()
    for turn in range(500 if os.environ.get("SOAK") else 25):
        for _ in range(draw.randint(1, 5)):
            run_id = f"{draw.getrandbits(128):032x}"
            wanted.add(run_id)
            if draw.random() < 0.2:
                refused.add(run_id)
                collector.refuse[run_id] = "not this one"
            spool.write(places, {"run_id": run_id, "hook": "prolog", "turn": turn}, Plan({}, "n1").spool)
        collector.script.extend(draw.choices([None, "lost", "dropped", (503, {})], [6, 2, 1, 1])[:1])
        with subprocess.Popen(
            [sys.executable, "-S", "-c", SHIP, str(node.root)], cwd=CHECKOUT, stdout=subprocess.PIPE
        ) as shipper:
            assert shipper.stdout is not None
            shipper.stdout.readline()
            time.sleep(draw.uniform(0, 0.05))
            shipper.send_signal(signal.SIGKILL)
    collector.script.clear()
    subprocess.run(
        [sys.executable, "-S", "-c", SHIP, str(node.root)],
        cwd=CHECKOUT,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    assert set(collector.store) == wanted - refused
    aside = Path(places.var) / "set-aside"
    assert {path.stem.rpartition("-")[2] for path in aside.glob("*.json")} == refused
    assert all(Path(f"{path}.why").read_text() == "not this one\n" for path in aside.glob("*.json"))
    assert spool.paths(places) == []


@pytest.mark.parametrize(("taken", "carried_out"), [(True, 0), (False, 1)])
def test_a_drain_that_was_taken_over_is_not_carried_out_here(
    node: NodeRoot, collector: Collector, monkeypatch: pytest.MonkeyPatch, taken: bool, carried_out: int
) -> None:
    done: list[Any] = []
    monkeypatch.setattr(settle, "JITTER_S", 0)
    monkeypatch.setattr(settle, "_standing", lambda *_: "true")
    monkeypatch.setattr(settle, "_one", lambda *args: done.append(args) or [])
    token_file(node.root)
    this = a_run(node.root, url=collector.url, token_file="/etc/slurm-guard/token", acting=True)
    run_id = this.outcome.run_id
    spool.write(this.places, {"run_id": run_id, "hook": "healthcheck"}, this.plan.spool)
    wanted = {"fault": "gpu_xid.79", "device": "gpu1", "scope": "device", "reason": "SG:gpu_xid.79 gpu1"}
    requests.put(this.places, requests.make("drain", boot_id=BOOT, run_id=run_id, **wanted))
    if taken:
        collector.takes_over.add(run_id)
    settle._carry_out(this)
    assert len(done) == carried_out
    assert run_id in collector.store
