"""The door to Slurm on a real one: reads, writes, ownership, trouble, accounting."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from minicluster import Cluster
from slurm_guard.core.errors import SlurmRefusedError, SlurmUnreachableError
from slurm_guard.slurm import budget
from slurm_guard.slurm.command_gateway import CommandGateway
from slurm_guard.slurm.ownership import safe_drain, safe_resume

from .conftest import soak

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurm_guard.slurm.gateway import NodeState

OWNERS = ["root", "slurm"]
OURS = "SG:gpu_remap.failure gpu2"
OTHER = "SG:ib_link.down mlx5_1/1"
LONG = 30.0
HOSTILE = [
    "fan [root@2031-01-01T00:00:00]",
    f"{OURS} [root@2031-01-01T00:00:00]",
    f"x\nNodeName=n1 State=IDLE Reason={OURS}",
    "a|b=c Comment=d 'e' `f` $(g) %h\ti",
    "дым — 煙",
    "~0123456789abcdef~" * 20,
    "y" * 5000,
]


@pytest.fixture(scope="module")
def slurm() -> Iterator[Cluster]:
    """Four plain nodes with accounting."""
    folder = Path(tempfile.mkdtemp(prefix="gateway-"))
    folder.chmod(0o755)
    cluster = Cluster(folder, nodes=4, dbd=True, simulate=False, conf={"SlurmdTimeout": 300})
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def door(slurm: Cluster) -> CommandGateway:
    """A gateway to the cluster, whose nodes are all in service before each test."""
    gateway = CommandGateway({}, str(slurm.conf_path))
    for job in slurm.run(["squeue", "-h", "-o", "%i"]).stdout.split():
        slurm.run(["scancel", job], check=False)
    for node in gateway.nodes(deadline=LONG):
        admin(slurm, node.name, "state=resume", check=False)
    wait_for(lambda: all(str(node) == "IDLE" for node in gateway.nodes(deadline=LONG)))
    gateway.calls = 0
    return gateway


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition never held"
        time.sleep(0.05)


def admin(slurm: Cluster, node: str, *changes: str, check: bool = True) -> None:
    slurm.run(["scontrol", "update", f"nodename={node}", *changes], timeout=LONG, check=check)


def submit(slurm: Cluster, *options: str, script: str = "true") -> int:
    done = slurm.run(["sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", script], timeout=LONG)
    return int(done.stdout)


@pytest.mark.parametrize("as_json", [False, True])
def test_drain_keep_and_resume(slurm: Cluster, door: CommandGateway, as_json: bool) -> None:
    door.json = as_json
    assert safe_drain(door, "n1", OURS, OWNERS, deadline=LONG).written
    node = door.node("n1", LONG)
    assert (node.base, node.flags, node.reason, node.reason_user) == ("idle", {"DRAIN"}, OURS, "root")
    assert node.reason_time is not None
    assert abs(node.reason_time - time.time()) < LONG
    kept = safe_drain(door, "n1", OTHER, OWNERS, deadline=LONG)
    assert (kept.outcome, kept.written, door.node("n1", LONG).reason) == ("done", False, OURS)
    resumed = safe_resume(door, "n1", OWNERS, written=OURS, deadline=LONG)
    assert (resumed.outcome, resumed.calls) == ("done", 2)
    assert not door.node("n1", LONG).drained


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("reason", HOSTILE)
def test_an_admins_reason_survives_whatever_it_says(
    slurm: Cluster, door: CommandGateway, reason: str, as_json: bool
) -> None:
    door.json = as_json
    admin(slurm, "n2", "state=drain", f"reason={reason}", f"comment=Reason={OURS} [root@2031-01-01T00:00:00]")
    assert door.node("n2", LONG).reason == reason
    assert sorted(node.name for node in door.nodes(deadline=LONG)) == ["n1", "n2", "n3", "n4"]
    assert safe_drain(door, "n2", OTHER, OWNERS, deadline=LONG).outcome == "held"
    assert safe_resume(door, "n2", OWNERS, deadline=LONG).outcome == "held"
    assert door.node("n2", LONG).reason == reason
    admin(slurm, "n2", "comment=")


@pytest.mark.parametrize(
    "change",
    [
        ["state=down", "reason=psu"],
        ["state=down", f"reason={OURS}"],
        ["state=fail", "reason=replace it"],
        ["state=drain", f"reason={OURS} CASE-77"],
    ],
)
def test_what_an_admin_has_is_held(slurm: Cluster, door: CommandGateway, change: list[str]) -> None:
    admin(slurm, "n3", *change)
    before = door.node("n3", LONG)
    assert safe_drain(door, "n3", OTHER, OWNERS, deadline=LONG).outcome == "held"
    assert safe_resume(door, "n3", OWNERS, written=OURS, deadline=LONG).outcome == "held"
    after = door.node("n3", LONG)
    assert (str(after), after.reason, after.reason_time) == (str(before), before.reason, before.reason_time)


def test_a_maintenance_reservation_is_held(slurm: Cluster, door: CommandGateway) -> None:
    wanted = "reservation=care starttime=now duration=10 users=root nodes=n4 flags=maint,ignore_jobs"
    slurm.run(["scontrol", "create", *wanted.split()])
    try:
        wait_for(lambda: "MAINTENANCE" in door.node("n4", LONG).flags)
        assert safe_drain(door, "n4", OURS, OWNERS, deadline=LONG).outcome == "held"
    finally:
        slurm.run(["scontrol", "delete", "reservationname=care"])
        wait_for(lambda: str(door.node("n4", LONG)) == "IDLE")


def test_a_busy_node_is_drained_and_its_job_goes_on(slurm: Cluster, door: CommandGateway) -> None:
    job = submit(slurm, "-w", "n1", "-J", "x|y\n UserId=daemon(1)", script="sleep 60")
    wait_for(lambda: door.jobs_on("n1", LONG))
    assert safe_drain(door, "n1", OURS, OWNERS, deadline=LONG).written
    assert door.node("n1", LONG).base in ("mixed", "allocated")
    (held,) = door.jobs_on("n1", LONG)
    assert (held.job_id, held.state, held.user, held.nodes) == (job, "RUNNING", "root", "n1")
    assert held.name == "x|y\n UserId=daemon(1)"
    assert door.set_admin_comment(job, "n1 drained: gpu_remap.failure gpu2", LONG)
    assert not door.set_admin_comment(job, "something else", LONG)
    found = door.job(job, LONG)
    assert found is not None
    assert found.admin_comment == "n1 drained: gpu_remap.failure gpu2"
    assert (found.exit_code, found.restarts) == (None, 0)


def test_the_budget_is_read_with_the_node(slurm: Cluster, door: CommandGateway) -> None:
    plan = {"nodes": 2, "percent": 50.0, "per_hour": 99, "shared_nodes": 1}
    written = []
    for name in ("n1", "n2", "n3", "n4"):

        def room(nodes: list[NodeState], name: str = name) -> tuple[bool, str]:
            return budget.room(nodes, name, plan, "gpu_remap.failure", "device", "gpu2")

        outcome = safe_drain(door, name, OURS, OWNERS, room=room, deadline=LONG)
        assert outcome.calls <= 3
        written.append(outcome.written)
    assert written == [True, True, False, False]


def test_refusals(slurm: Cluster, door: CommandGateway) -> None:
    for act in (
        lambda: door.node("n77", LONG),
        lambda: door.drain("n77", "x", LONG),
        lambda: door.resume("n1", LONG),
        lambda: door.jobs_on("n77", LONG),
    ):
        with pytest.raises(SlurmRefusedError):
            act()
    assert door.job(999_999, LONG) is None


def test_accounting_tells_every_run_of_a_requeued_job(slurm: Cluster, door: CommandGateway) -> None:
    # The first run is long enough to be requeued; the second ends at once, with 3.
    job = submit(
        slurm, "-w", "n1", "--requeue", script='[ "${SLURM_RESTART_COUNT:-0}" = 0 ] && sleep 60; exit 3'
    )
    wait_for(lambda: door.jobs_on("n1", LONG))
    slurm.run(["scontrol", "requeue", str(job)])
    wait_for(lambda: not door.jobs_on("n1", LONG))
    # slurmd takes a credential of the second in which it revoked the first run's for the revoked one.
    second = int(time.time())
    wait_for(lambda: time.time() > second + 1)
    slurm.run(["scontrol", "update", f"jobid={job}", "starttime=now"])

    def told() -> list[tuple[str, int | None]]:
        return [(run.state, run.exit_code) for run in door.accounting(job, LONG) if not run.step]

    wait_for(lambda: [state for state, _ in told()] == ["REQUEUED", "FAILED"])
    assert told()[-1] == ("FAILED", 3)
    first, last = (run for run in door.accounting(job, LONG) if not run.step)
    assert (first.job_id, last.job_id, first.user, last.nodes) == (job, job, "root", "n1")
    assert first.end_time is not None
    assert last.start_time is not None
    assert first.end_time <= last.start_time
    found = door.job(job, LONG)
    assert found is not None
    assert (found.restarts, found.exit_code) == (1, 3)


def test_a_controller_that_is_down_or_hangs_costs_the_deadline(slurm: Cluster) -> None:
    gateway = CommandGateway({}, str(slurm.conf_path))
    for stop, start in (
        (slurm.stop_controller, slurm.start_controller),
        (slurm.pause_controller, slurm.resume_controller),
    ):
        stop()
        try:
            for act in (
                lambda: gateway.nodes(deadline=0.5),
                lambda: gateway.drain("n1", OURS, 0.5),
                lambda: gateway.job(1, 0.5),
            ):
                with pytest.raises(SlurmUnreachableError):
                    act()
            assert safe_drain(gateway, "n1", OURS, OWNERS, deadline=0.5).outcome == "failed"
        finally:
            start()
        wait_for(lambda: str(gateway.node("n1", LONG)).startswith("IDLE"))
    with pytest.raises(SlurmUnreachableError):
        CommandGateway({}, str(slurm.directory / "no-such.conf")).nodes(deadline=0.5)


def test_interleavings_of_an_admin_and_the_guard(slurm: Cluster, door: CommandGateway) -> None:
    """After every step of the guard an admin's reason stands as it was, and so does the drain."""
    draw = random.Random(20)
    steps: list[list[str]] = [
        ["state=drain", "reason=DIMM swap"],
        ["state=drain", f"reason={OURS} CASE-9"],
        ["state=down", "reason=psu"],
        ["state=resume"],
        [],
    ]
    for _ in range(soak(60, 500)):
        change = draw.choice(steps)
        if change:
            admin(slurm, "n2", *change, check=False)
        before = door.node("n2", LONG)
        if draw.random() < 0.5:
            safe_drain(door, "n2", OTHER, OWNERS, deadline=LONG)
        else:
            safe_resume(door, "n2", OWNERS, written=OTHER, deadline=LONG)
        after = door.node("n2", LONG)
        if before.reason and before.reason != OTHER and (before.drained or before.base == "down"):
            assert (after.reason, after.reason_time) == (before.reason, before.reason_time)
            assert after.drained == before.drained
