"""Nodes in states of Slurm's own, on real daemons: planned, about to reboot, asleep, waking, set up anew."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from .conftest import SCHEDULER, guarded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import Guarded

LOST = "SG:gpu_count.lost gpu2"
POWER = {
    "SchedulerParameters": SCHEDULER,
    "SuspendProgram": "/bin/true",
    "ResumeProgram": "/bin/true",
    "SuspendTime": "86400",
    "SuspendTimeout": "2",
    "ResumeTimeout": "60",
    "ReturnToService": "2",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Guarded]:
    """Power saving as in a cloud: the test plays the programs that end and start machines."""
    with guarded(nodes=6, conf=POWER, settings={"budget": 6, "clean_runs": 1}) as found:
        yield found


def flags(cluster: Guarded, node: str) -> str:
    """`State=` as scontrol has it, with all flags."""
    words = cluster.slurm("scontrol", "show", "node", "-o", node).split()
    return next(word.partition("=")[2] for word in words if word.startswith("State="))


def lose_gpu(cluster: Guarded, node: str) -> None:
    cluster.healthcheck(node)
    cluster.cluster.node(node).fault("gpu_count.lost", "gpu2")
    cluster.healthcheck(node)


def drains(cluster: Guarded, node: str) -> list[tuple[str, str]]:
    """(outcome, reason) of what was tried on a node."""
    return [one[1:] for one in cluster.actions(node) if one[0] == "drain"]


def test_a_node_that_is_planned_for_a_waiting_job_is_drained_like_any_free_node(cluster: Guarded) -> None:
    holds = cluster.submit("-w", "n2", "--exclusive", "-t", "5", script="sleep 120")
    cluster.wait(lambda: cluster.job(holds)["JobState"] == "RUNNING")
    waits = cluster.submit("-w", "n1,n2", "--exclusive", "-t", "5", script="true")
    cluster.wait(lambda: "PLANNED" in flags(cluster, "n1"))
    lose_gpu(cluster, "n1")
    cluster.wait(lambda: cluster.reason("n1") == LOST)
    cluster.slurm("scancel", str(holds), str(waits))


def test_a_node_that_is_about_to_reboot_is_left_to_its_admin(cluster: Guarded) -> None:
    job = cluster.submit("-w", "n3", script="sleep 120")
    cluster.wait(lambda: cluster.job(job)["JobState"] == "RUNNING")
    cluster.slurm("scontrol", "reboot", "reason=firmware", "n3")
    cluster.wait(lambda: "REBOOT" in flags(cluster, "n3"))
    lose_gpu(cluster, "n3")
    assert ("held", LOST) in drains(cluster, "n3")
    assert "DRAIN" not in flags(cluster, "n3")
    assert "firmware" in cluster.reason("n3")
    cluster.slurm("scontrol", "cancel_reboot", "n3")
    cluster.cluster.node("n3").clear()
    cluster.slurm("scancel", str(job))


def test_a_node_that_is_put_to_sleep_is_not_written_to_and_wakes_as_itself(cluster: Guarded) -> None:
    node = cluster.cluster.node("n4")
    cluster.slurm("scontrol", "update", "nodename=n4", "state=power_down")
    cluster.wait(lambda: "POWER" in flags(cluster, "n4"))
    lose_gpu(cluster, "n4")  # the last healthcheck before the power goes
    assert ("held", LOST) in drains(cluster, "n4")
    cluster.wait(lambda: "POWERED_DOWN" in flags(cluster, "n4"))
    node.stop_slurmd()
    node.clear()
    cluster.slurm("scontrol", "update", "nodename=n4", "state=power_up")
    cluster.wait(lambda: "POWERING_UP" in flags(cluster, "n4"))
    cluster.healthcheck("n4")
    node.reboot(restart_slurmd=True)
    cluster.wait(lambda: cluster.state("n4") == "idle", 90)
    assert cluster.reason("n4") == ""


def test_another_machine_under_a_drained_name_is_told_and_comes_back_once_it_is_proven(
    cluster: Guarded,
) -> None:
    """A cloud's new machine starts with an empty disk, one that was swapped with the old one's."""
    node = cluster.cluster.node("n5")
    lose_gpu(cluster, "n5")
    cluster.wait(lambda: cluster.reason("n5") == LOST)
    node.clear()
    serial = node.root / "sys/class/dmi/id/product_serial"
    before = serial.read_text().strip()
    node.reboot()
    serial.write_text("SWAPPED-1\n")
    cluster.healthcheck("n5")
    run = [one for one in cluster.records("n5") if one["kind"] == "run"][-1]
    (told,) = [f for one in run["results"] if one["check"] == "inventory" for f in one["findings"]]
    assert told["fault"] == "inventory.machine"
    assert before in told["message"]
    assert run["machine"]["serial"] == "SWAPPED-1"
    cluster.wait(lambda: cluster.state("n5") == "idle")


def test_a_new_machine_s_disk_knows_nothing_of_the_drain_so_a_person_ends_it(cluster: Guarded) -> None:
    node = cluster.cluster.node("n6")
    lose_gpu(cluster, "n6")
    cluster.wait(lambda: cluster.reason("n6") == LOST)
    node.clear()
    node.reboot()
    (node.root / "var/lib/slurm-guard/faults.json").unlink()
    (node.root / "var/lib/slurm-guard/inventory.json").unlink()
    for _ in range(3):
        cluster.healthcheck("n6")
    assert cluster.reason("n6") == LOST


def test_a_swapped_gpu_is_told_once(cluster: Guarded) -> None:
    cluster.healthcheck("n4")
    state = next(cluster.root("n4").rglob("nvml-state.ini"))
    text = state.read_text()
    old = re.findall(r"^uuid\s*=\s*(GPU-\S+)", text, re.MULTILINE)[0]
    new = "GPU-00000000-1111-4222-8333-444444444444"
    state.write_text(text.replace(old, new))
    try:
        told = []
        for _ in range(2):
            cluster.healthcheck("n4")
            run = [one for one in cluster.records("n4") if one["kind"] == "run"][-1]
            found = [f for one in run["results"] if one["check"] == "inventory" for f in one["findings"]]
            told.append([(one["fault"], one["device_id"]) for one in found])
        assert told == [[("inventory.gpu", new)], []]
        kept = json.loads((cluster.root("n4") / "var/lib/slurm-guard/inventory.json").read_text())
        assert new in kept["gpus"].values()
    finally:
        state.write_text(text)
