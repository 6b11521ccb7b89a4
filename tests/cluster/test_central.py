"""The collector acts on a real slurmctld: many nodes at once, an admin in between, and trouble."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from minicluster import Cluster
from slurm_guard.core import tag
from tests.cluster.central import NAMES, Central, controller, make_new
from tests.cluster.collectors import free_port
from tests.cluster.conftest import soak
from tests.unit.collector.fake_slurm import REASON

KILLS = soak(2, 40)


@pytest.fixture(scope="module")
def slurm() -> Iterator[Cluster]:
    with controller() as cluster:
        yield cluster


@pytest.fixture
def folder(slurm: Cluster) -> Iterator[Path]:
    """A folder that every user may enter; all nodes are new."""
    made = Path(tempfile.mkdtemp(prefix="central-"))
    made.chmod(0o755)
    make_new(slurm)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def central(slurm: Cluster, folder: Path) -> Iterator[Central]:
    """A running collector with room for all."""
    made = Central(slurm, folder)
    made.head.start()
    try:
        yield made
    finally:
        if made.head.process is not None:
            made.head.end(signal.SIGKILL)


@pytest.mark.timeout(300)
def test_many_nodes_fail_in_the_same_second(central: Central) -> None:
    failing = NAMES[:50]
    jobs = {name: {1000 + number: 4000 + number} for number, name in enumerate(failing)}
    taken = central.ask(failing, jobs=jobs)
    assert len(taken) == 0  # no request lies on these nodes: they only ship
    central.wait(lambda: central.drained(REASON) == set(failing))
    central.wait(central.settled)
    assert central.orders() == {name: ["done"] for name in failing}
    assert [one[:3] for one in sorted(central.actions(), key=lambda one: one[0])] == [
        (name, "drain", "done") for name in failing
    ]
    assert central.most_calls_in_a_second() <= 10
    comments = {node.comment for name, node in central.nodes().items() if name in failing}
    assert all(tag.parse(comment) for comment in comments)
    history = central.head.sguard("drains", "--history") if _has_history(central) else ""
    assert "Traceback" not in history


def _has_history(central: Central) -> bool:
    return "--history" in central.head.sguard("drains", "--help")


def test_an_admin_in_between_keeps_the_word(central: Central) -> None:
    central.admin("before", "nodename=d001", "state=drain", "reason=DIMM swap, Ines")
    central.admin("after", "nodename=d002", "state=resume")
    central.slurm.run(["scontrol", "update", "nodename=d003", "comment=rack 9"])
    central.ask(["d001", "d002", "d004"])  # one update, after which the admin acts
    central.wait(lambda: len(central.orders()) == 3 and central.settled())
    central.wait(lambda: central.left_to_do() == 0)
    central.ask(["d003"])  # a person's comment there makes an update of its own
    central.wait(lambda: len(central.orders()) == 4 and central.settled())
    nodes = central.nodes()
    assert nodes["d001"].reason == "DIMM swap, Ines"
    assert not nodes["d002"].drained
    assert (nodes["d003"].reason, nodes["d003"].comment) == (REASON, "rack 9")
    assert central.orders() == {"d001": ["held"], "d002": ["done"], "d003": ["done"], "d004": ["done"]}
    central.slurm.run(["scontrol", "update", "nodename=d004", f"reason={REASON} CASE-12"])
    central.slurm.run(["scontrol", "update", "nodename=d003", "state=resume"])
    central.ask(["d003", "d004"])
    central.wait(lambda: len(central.orders()["d004"]) == 2 and central.settled())
    nodes = central.nodes()
    assert not nodes["d003"].drained
    assert nodes["d004"].reason == f"{REASON} CASE-12"
    assert central.orders()["d003"] == ["done", "held"]


@pytest.mark.timeout(300)
def test_while_the_controller_is_silent_orders_wait(central: Central) -> None:
    central.slurm.pause_controller()
    try:
        central.ask(NAMES[:3])
        central.wait(lambda: "orders wait" in (central.head.root / "serve.log").read_text())
    finally:
        central.slurm.resume_controller()
    central.wait(lambda: central.drained(REASON) == set(NAMES[:3]))
    central.wait(central.settled)
    assert central.orders() == {name: ["done"] for name in NAMES[:3]}


def test_more_nodes_than_the_budget_are_one_incident_and_no_drains(slurm: Cluster, folder: Path) -> None:
    central = Central(slurm, folder, nodes=5)
    central.head.start()
    try:
        central.ask(NAMES[:8])
        central.wait(lambda: len(central.orders()) == 8 and central.settled())
        assert central.drained() == set()
        assert {one[3]["limit"] for one in central.actions()} == {"incident"}
        central.ask(NAMES[20:22], fault="gpu_xid.79")
        central.wait(lambda: len(central.drained()) == 2)
    finally:
        central.head.end(signal.SIGKILL)


def _have_ended(central: Central, names: list[str]) -> bool:
    return set(names) <= set(central.orders()) and central.settled()


def kill(collector: subprocess.Popen[str]) -> None:
    collector.kill()
    collector.wait(30)
    if collector.stdout is not None:
        collector.stdout.close()


@pytest.mark.timeout(120 + 90 * KILLS)
def test_kill_9_and_two_collectors_lose_and_double_nothing(slurm: Cluster, folder: Path) -> None:
    draw = random.Random(11)
    central = Central(slurm, folder, nodes=40)
    other = f"127.0.0.1:{free_port()}"
    first = central.head.start()
    second = central.head.start("--listen", other)
    held: dict[str, str] = {}
    try:
        for number in range(KILLS):
            some = NAMES[number % 20 * 6 : number % 20 * 6 + 6]
            held[some[0]] = f"admin {number}"
            central.admin("before", f"nodename={some[0]}", "state=drain", f"reason=admin {number}")
            central.ask(some, boot=f"boot {number}")
            time.sleep(draw.uniform(2.0, 5.0))  # the moment of the kill
            victim = first if draw.random() < 0.5 else second
            kill(victim)
            if victim is first:
                first = central.head.start()
            else:
                second = central.head.start("--listen", other)
            central.wait(partial(_have_ended, central, some))
            assert set(some) <= central.drained()
            assert len(central.drained(REASON)) <= 40
            if number % 6 == 5:
                make_new(slurm)
                held.clear()
        nodes = central.nodes()
        assert {name: nodes[name].reason for name in held} == held
        ids = central.head.rows("SELECT run_id FROM runs WHERE hook='collector'")
        assert len(ids) == len(central.actions()) == sum(len(some) for some in central.orders().values())
    finally:
        for one in (first, second):
            kill(one)
        central.head.process = None
    assert os.path.exists(central.head.places.database)
