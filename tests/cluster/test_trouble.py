"""Slurm silent or starting; sixteen nodes failing at once; admin, Slurm and guard at cross purposes."""

from __future__ import annotations

import random
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from .conftest import SGUARD, guarded, soak

if TYPE_CHECKING:
    from .conftest import Guarded

INTERLEAVINGS = soak(20, 500)


def test_a_hung_controller_delays_no_healthy_hook_and_a_fault_waits_on_disk(cluster: Guarded) -> None:
    cluster.healthcheck("n1")
    job = cluster.submit("-w", "n1", "--gres=gpu:8", script="sleep 60")
    cluster.wait(lambda: len(cluster.runs("n1", job)) == 1)
    cluster.cluster.pause_controller()
    try:
        assert cluster.hook("n2", "prolog", 900, SLURM_JOB_GPUS="0-7").returncode == 0
        assert cluster.hook("n2", "epilog", 900, SLURM_JOB_GPUS="0-7").returncode == 0
        assert [one["status"] for one in cluster.runs("n2", 900)] == ["pass", "pass"]
        cluster.cluster.node("n1").fault("gpu_xid.79", "gpu3")
        assert cluster.hook("n1", "epilog", job, SLURM_JOB_GPUS="0-7").returncode == 0
        assert ("drain", "failed", "SG:gpu_xid.79 gpu3") in cluster.actions("n1")
        # The request waits on disk: the next prolog refuses, though Slurm still says nothing.
        assert cluster.hook("n1", "prolog", 901, SLURM_JOB_GPUS="0-7").returncode == 1
    finally:
        cluster.cluster.resume_controller()
    cluster.settled("n1")
    cluster.healthcheck("n1")
    cluster.wait(lambda: cluster.reason("n1") == "SG:gpu_xid.79 gpu3")


def test_a_controller_that_is_down_costs_a_healthy_job_nothing(cluster: Guarded) -> None:
    cluster.cluster.stop_controller()
    try:
        assert cluster.hook("n2", "prolog", 910, SLURM_JOB_GPUS="0").returncode == 0
        assert cluster.runs("n2", 910)[0]["status"] == "pass"
    finally:
        cluster.cluster.start_controller()
    cluster.wait(lambda: cluster.state("n2") == "idle", 60)


def test_a_fault_at_slurmd_s_start_drains_once_slurm_can_be_asked(cluster: Guarded) -> None:
    node = cluster.cluster.node("n4")
    node.stop_slurmd()
    node.fault("gpu_count.lost", "gpu1")
    node.start_slurmd()
    cluster.wait(lambda: cluster.state("n4").startswith("drain"), 60)
    assert cluster.reason("n4") == "SG:gpu_count.lost gpu1"


def test_hostile_words_reach_slurm_as_one_clean_line(cluster: Guarded) -> None:
    cluster.healthcheck("n2")
    cluster.cluster.node("n2").machine.kernel_says(
        "NVRM: Xid (PCI:0000:5d:00): 79, pid=7, name='$(touch /tmp/owned)\"`x`', GPU has fallen off the bus.",
        priority=3,
    )
    cluster.healthcheck("n2")
    cluster.wait(lambda: cluster.state("n2") == "drained")
    assert cluster.reason("n2") == "SG:gpu_xid.79 gpu3"


@pytest.mark.timeout(400)
def test_a_mount_that_hangs_everywhere_drains_at_most_the_budget() -> None:
    settings = {"budget": 2, "clean_runs": 2}
    with guarded(nodes=16, settings=settings) as cluster:
        for name in cluster.names:
            cluster.cluster.node(name).fault("fs_mounts.hung", "/scratch")
        threads = [
            threading.Thread(target=cluster.hook, args=(name, "healthcheck")) for name in cluster.names
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        jobs = [cluster.submit("-N1", "--exclusive", script="true") for _ in range(64)]
        cluster.wait(lambda: len(cluster.unfinished(jobs)) <= 2, 240)
        for name in cluster.names:
            cluster.settled(name)
        drained = [name for name, state in cluster.cluster.states().items() if state.startswith("drain")]
        assert len(drained) <= 1  # a cause that is shared has a budget of one node
        assert {cluster.reason(name) for name in drained} <= {"SG:fs_mounts.hung /scratch"}


@pytest.mark.timeout(400)
def test_device_faults_on_all_nodes_at_once_drain_at_most_the_budget() -> None:
    with guarded(nodes=16, settings={"budget": 3}) as cluster:
        for name in cluster.names:
            cluster.cluster.node(name).fault("gpu_count.lost", "gpu0")
        jobs = [cluster.submit("-N1", "--gres=gpu:8", "--exclusive", script="true") for _ in range(32)]
        cluster.wait(lambda: len(cluster.unfinished(jobs)) <= 3, 240)
        for name in cluster.names:
            cluster.settled(name)
        drained = [name for name, state in cluster.cluster.states().items() if state.startswith("drain")]
        assert 1 <= len(drained) <= 3


@pytest.mark.timeout(60 + 20 * INTERLEAVINGS)
def test_interleavings_of_admin_slurm_and_guard(cluster: Guarded) -> None:
    """An admin's reason, comment or edit is never overwritten nor resumed, whatever comes in which order."""
    draw = random.Random(11)
    with cluster.configured(clean_runs=1):
        for number in range(INTERLEAVINGS):
            _interleave(cluster, draw, number)


class Admin:
    """Somebody else with `scontrol`: what they say of a node, whether they hold it, what they noted on it."""

    def __init__(self, cluster: Guarded, name: str, number: int) -> None:
        self.cluster = cluster
        self.name = name
        self.number = number
        self.words = f"admin says {number}"
        self.holds = False
        self.note = ""

    def update(self, *change: str) -> None:
        self.cluster.slurm("scontrol", "update", f"nodename={self.name}", *change, check=False)

    def drain(self) -> None:
        self.update("state=drain", f"reason={self.words}")
        self.holds = True

    def down(self) -> None:
        self.update("state=down", f"reason={self.words}")
        self.holds = True

    def edit(self) -> None:
        if self.cluster.state(self.name).startswith("drain"):
            self.update(f"reason={self.words}")
            self.holds = True

    def resume(self) -> None:
        self.update("state=resume")
        self.holds = False

    def remark(self, text: str) -> None:
        """Write the node's comment; an empty one gives it up."""
        self.update(f"comment={text}")
        self.note = text

    def edit_remark(self) -> None:
        """Add a word to whatever stands in the comment, the guard's own note too."""
        self.remark(f"{comment(self.cluster, self.name)} CASE-{self.number}".strip())

    def maint(self) -> None:
        what = ("users=root", "flags=maint,ignore_jobs", f"nodes={self.name}")
        when = ("starttime=now", "duration=5")
        name = f"reservationname=m{self.number}"
        self.cluster.slurm("scontrol", "create", "reservation", name, *when, *what, check=False)

    def leave(self) -> None:
        self.cluster.slurm("scontrol", "delete", f"reservationname=m{self.number}", check=False)
        self.resume()


STEPS = [
    *("fault", "clear", "reboot", "check", "check", "check", "drain", "edit", "down", "resume", "maint"),
    *("remark", "edit_remark", "prove"),
]
#: What an admin may note on a node: the last ones look like a note of the guard's and are none.
REMARKS = [
    "",
    "fan 3 ordered; =x Reason=SG:gpu_count.lost",
    "slurm_guard drained by mistake",
    "slurm_guard drained 1796093659 jobs 12 uids 1001 / see CASE-4",
]


def comment(cluster: Guarded, name: str) -> str:
    """The node's comment as Slurm has it."""
    found = cluster.slurm("sinfo", "-h", "-N", "-n", name, "-O", "Comment:2000").splitlines()
    return "" if not found or found[0].strip() == "(null)" else found[0].strip()


def prove(cluster: Guarded, name: str) -> None:
    """`sguard resume --verify`, however it ends."""
    command = [str(SGUARD), "resume", name, "--verify", "--root", str(cluster.root(name))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode in (0, 1, 15, 16), done.stderr
    assert "sguard_verify" not in cluster.slurm("scontrol", "show", "reservation", "-o"), done.stderr


def _interleave(cluster: Guarded, draw: random.Random, number: int) -> None:
    node, admin = cluster.cluster.node("n2"), Admin(cluster, "n2", number)
    for step in draw.choices(STEPS, k=8):
        if step == "fault":
            node.fault("gpu_count.lost", f"gpu{draw.randrange(8)}")
        elif step == "check":
            cluster.healthcheck("n2")
        elif step in ("clear", "reboot"):
            getattr(node, step)()
        elif step == "prove":
            prove(cluster, "n2")
        elif step == "remark":
            admin.remark(draw.choice(REMARKS))
        else:
            getattr(admin, step)()
        if admin.note:
            assert comment(cluster, "n2") == admin.note, (number, step)
        if admin.holds:
            assert cluster.reason("n2") == admin.words, (number, step)
            assert cluster.state("n2").rstrip("*$").startswith(("drain", "down", "maint")), (number, step)
    node.clear()
    node.reboot()
    admin.leave()
    admin.remark("")
    cluster.healthcheck("n2")
