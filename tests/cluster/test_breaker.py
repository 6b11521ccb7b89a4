"""Hooks killed at the worst moment, disks that hang, a storm of jobs: nothing is lost, nobody is stuck."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from minicluster import hungfs
from slurm_guard.core import plan as plans

from .conftest import CHECKOUT, soak
from .guard_processes import kill_all, of_the_guard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .conftest import Guarded

KILLS = soak(5, 100)
FAULT = ("gpu_count.lost", "gpu3")
REASON = "SG:gpu_count.lost gpu3"


def use_scontrol(cluster: Guarded, node: str, body: str) -> None:
    """Give a node's plan a `scontrol` of our own."""
    program = cluster.root(node) / "scontrol"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    path = cluster.root(node) / "var/lib/slurm-guard/plan.json"
    bundle = json.loads(path.read_text())
    bundle.pop("seal", None)
    bundle["programs"]["scontrol"] = str(program)
    bundle["hash"] = plans.digest(bundle)
    path.write_bytes(plans.encode(bundle))


def in_service(cluster: Guarded, node: str) -> bool:
    return cluster.state(node).rstrip("*") == "idle"


def test_a_hook_killed_between_the_drain_and_its_own_note_leaves_no_node_behind(cluster: Guarded) -> None:
    """Slurm has drained; the guard has not noted it; the machine is booted: the node still comes back."""
    node = cluster.cluster.node("n1")
    with cluster.configured():
        use_scontrol(cluster, "n1", '/usr/bin/scontrol "$@"; kill -9 $PPID')
        node.fault(*FAULT)
        assert cluster.hook("n1", "prolog", 5, SLURM_JOB_GPUS="3").returncode == 0
        assert cluster.reason("n1") == REASON
    with cluster.configured(clean_runs=1):
        node.clear()
        node.reboot()
        cluster.healthcheck("n1")
        cluster.healthcheck("n1")
    cluster.wait(lambda: in_service(cluster, "n1"))


@pytest.mark.timeout(60 + 15 * KILLS)
def test_kill_9_of_everything_during_refusal_and_drain_leaves_no_node_behind(cluster: Guarded) -> None:
    draw = random.Random(3)
    with cluster.configured(clean_runs=1):
        for number in range(KILLS):
            _kill_one(cluster, draw, number)
    assert list(cluster.root("n1").rglob("*.tmp")) == []


def _kill_one(cluster: Guarded, draw: random.Random, number: int) -> None:
    node, root = cluster.cluster.node("n1"), cluster.root("n1")
    node.fault(*FAULT)
    hook = draw.choice(["prolog", "epilog", "healthcheck"])
    env = {"SLURMD_NODENAME": "n1", "SLURM_CONF": str(cluster.cluster.conf_path)}
    if hook != "healthcheck":
        env.update(SLURM_JOB_ID=str(900 + number), SLURM_JOB_UID="0", SLURM_JOB_GPUS="0-7")
    command = [str(CHECKOUT / hook / f"sguard-{hook}"), "--root", str(root)]
    with subprocess.Popen(command, env=env, start_new_session=True, stdout=subprocess.DEVNULL):
        time.sleep(draw.uniform(0.02, 2.5 if hook == "healthcheck" else 0.9))  # the moment of the kill
        kill_all(root)
    node.clear()
    node.reboot()
    for _ in range(3):
        cluster.healthcheck("n1")
    cluster.records("n1")  # every file is whole, or this fails
    cluster.wait(lambda: in_service(cluster, "n1"))


@contextmanager
def hung(path: Path) -> Iterator[None]:
    """A file system at `path` that never answers; freed in the end."""
    path.mkdir(parents=True, exist_ok=True)
    device = hungfs.mount(str(path), "hung")
    server = os.fork()
    if server == 0:
        hungfs.serve(device, 0)
        os._exit(0)
    try:
        yield
    finally:
        os.kill(server, signal.SIGKILL)
        os.close(device)
        os.waitpid(server, 0)
        subprocess.run(["/bin/umount", "-l", str(path)], check=True)


def test_a_spool_on_a_hung_disk_stops_no_job_and_costs_no_drain(cluster: Guarded) -> None:
    cluster.cluster.node("n1").fault(*FAULT)
    with hung(cluster.root("n1") / "var/lib/slurm-guard/spool"):
        assert cluster.hook("n1", "epilog", 6, SLURM_JOB_GPUS="3").returncode == 0
        assert cluster.reason("n1") == REASON
        assert cluster.hook("n2", "prolog", 7, SLURM_JOB_GPUS="3").returncode == 0
    cluster.settled("n1")
    assert of_the_guard(cluster.root("n1")) == []
    cluster.hook("n1", "healthcheck")
    assert [one["hook"] for one in cluster.records("n1") if one["kind"] == "run"] == ["healthcheck"]


@pytest.mark.timeout(400)
def test_a_storm_of_jobs_on_one_node_loses_no_record(cluster: Guarded) -> None:
    jobs = [cluster.submit("-w", "n3", "-c1", "--mem=1", script="true") for _ in range(40)]
    cluster.wait(lambda: not cluster.unfinished(jobs), 300)
    runs = [one for one in cluster.records("n3") if one["kind"] == "run"]
    filed = sorted((one["hook"], one["allocation"]["job_id"]) for one in runs)
    assert filed == [(hook, job) for hook in ("epilog", "prolog") for job in jobs]
    assert not any("prolog" in one["coverage"] for one in runs)
    assert os.listdir(cluster.root("n3") / "run/slurm-guard/allocations") == []
