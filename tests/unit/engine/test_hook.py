"""Whole runs of the hooks on a node's root folder, through the real shims."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slurm_guard.core import plan as plans
from slurm_guard.core.context import Context
from slurm_guard.core.paths import Places
from slurm_guard.engine import run_once

from .conftest import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import NodeRoot

#: Long campaigns run with the same code and a bigger number: `make soak`.
KILLS = 1000 if os.environ.get("SOAK") else 40


def write_plan(node: NodeRoot, **changes: Any) -> None:
    content = {
        "schema": "1.0",
        "built_at": time.time(),
        "cluster": "blue",
        "profiles": [{}],
        "nodes": {"n1": 0},
        **changes,
    }
    content["hash"] = plans.digest(content)
    path = node.root / "var/lib/slurm-guard/plan.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def test_a_healthy_job_from_prolog_to_epilog(node: NodeRoot) -> None:
    write_plan(node)
    assert node.run("prolog", job=31).returncode == 0
    assert (node.root / "run/slurm-guard/allocations/31.json").exists()
    assert node.run("epilog", job=31, SLURM_JOB_EXIT_CODE2="3:0").returncode == 0
    assert not (node.root / "run/slurm-guard/allocations/31.json").exists()
    prolog, epilog = node.records()
    assert (prolog["hook"], epilog["hook"]) == ("prolog", "epilog")
    assert prolog["allocation"]["opened_at"] == epilog["allocation"]["opened_at"]
    assert epilog["allocation"]["exit_code"] == "3:0"
    assert prolog["plan"]["state"] == "ok"
    assert prolog["exit"] == 0


def test_the_epilog_of_a_requeued_run_is_filed_under_that_run(node: NodeRoot) -> None:
    node.run("prolog", job=31, SLURM_JOB_RESTART_COUNT="0")
    node.run("epilog", job=31, SLURM_JOB_RESTART_COUNT="1")
    node.run("prolog", job=31, SLURM_JOB_RESTART_COUNT="1")
    node.run("epilog", job=31, SLURM_JOB_RESTART_COUNT="2")
    runs = [(one["hook"], one["allocation"]["restart"]) for one in node.records()]
    assert runs == [("prolog", 0), ("epilog", 0), ("prolog", 1), ("epilog", 1)]


def test_an_epilog_without_a_prolog_is_legal_and_says_so(node: NodeRoot) -> None:
    node.run("epilog", job=8)
    (record,) = node.records()
    assert record["coverage"]["prolog"] == "no prolog of this job on record here"


def test_other_open_allocations_are_named(node: NodeRoot) -> None:
    node.run("prolog", job=5, SLURM_JOB_GPUS="0-1")
    node.run("prolog", job=6, SLURM_JOB_GPUS="2")
    assert node.records()[1]["others"] == [{"job_id": 5, "uid": 1204, "user": "mira", "gpus": ["0", "1"]}]


@pytest.mark.parametrize(
    ("content", "state"), [(None, "default"), ("{", "torn"), ('{"schema": "9.1"}', "foreign")]
)
def test_whatever_the_plan_is_the_job_starts(node: NodeRoot, content: str | None, state: str) -> None:
    if content is not None:
        write_plan(node)
        (node.root / "var/lib/slurm-guard/plan.json").write_text(content)
    assert node.run("prolog", job=1).returncode == 0
    (record,) = node.records()
    assert record["plan"]["state"] == state
    assert "sguard config apply" in record["plan"]["problem"]
    assert content is None or node.said("sguard config apply")


@pytest.fixture
def small_disk(node: NodeRoot) -> Iterator[Path]:
    """The guard's folder on a real file system of 1 MB."""
    folder = node.root / "var/lib/slurm-guard"
    folder.mkdir(parents=True)
    subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["/bin/umount", "-l", str(folder)], check=True)


def fill(descriptor: int) -> None:
    """Write until the disk says no."""
    while True:
        os.write(descriptor, b"x" * 4096)


@pytest.mark.needs_root
def test_a_full_disk_lets_jobs_start_and_says_so(node: NodeRoot, small_disk: Path) -> None:
    filler = os.open(small_disk / "filler", os.O_WRONLY | os.O_CREAT)
    with pytest.raises(OSError, match="No space left"):
        fill(filler)
    os.close(filler)
    assert node.run("prolog", job=1).returncode == 0
    assert node.said("not all of this run is on disk")
    (small_disk / "filler").unlink()
    assert node.run("prolog", job=2).returncode == 0
    assert [one["allocation"]["job_id"] for one in node.records()] == [2]


def test_the_spool_is_bounded_and_healthy_healthchecks_go_first(node: NodeRoot) -> None:
    write_plan(node, spool={"files": 6})
    node.run("prolog", job=1)
    for _ in range(8):
        node.run("healthcheck")
    records = node.records()
    assert len(records) <= 6
    assert [one["hook"] for one in records].count("prolog") == 1
    assert sum(one["dropped"] for one in records) >= 1
    assert node.said("were given up")


def test_a_second_healthcheck_at_once_is_left_out(node: NodeRoot) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[2]); from slurm_guard.engine import files; "
        "d = files.try_lock(sys.argv[1]); print(d is not None, flush=True); sys.stdin.read()"
    )
    lock = str(node.root / "run/slurm-guard/healthcheck.lock")
    command = ["/usr/bin/python3", "-c", program, lock, str(CHECKOUT)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert node.run("healthcheck").returncode == 0
        assert node.run("prolog", job=1).returncode == 0  # prologs never wait for it
        holder.kill()
    assert [one["hook"] for one in node.records()] == ["prolog"]
    assert node.said("the one before still runs")


def test_an_unreadable_sysfs_is_no_reason_to_stop_a_job(node: NodeRoot) -> None:
    write_plan(node, profiles=[{"expected": {"ib_ports": 2}, "modes": [["*", "*", "enforce"]]}])
    (node.root / "sys/class/infiniband").parent.mkdir(parents=True)
    (node.root / "sys/class/infiniband").write_text("not a folder")
    assert node.run("prolog", job=1).returncode == 0
    assert node.records()[0]["exit"] == 0


def test_a_run_that_dies_is_let_through_and_told(node: NodeRoot) -> None:
    (node.root / "var/lib").mkdir(parents=True)
    (node.root / "var/lib/slurm-guard").write_text("a file where the folder should be")
    assert node.run("prolog", job=1).returncode == 0
    assert node.said("not all of this run is on disk")


def test_only_the_first_run_ever_takes_the_kernel_log_for_history(node: NodeRoot) -> None:
    """The first run after a reboot reads that boot from its start: it proves that the old events are gone."""
    places, context = Places(str(node.root)), Context("healthcheck", {"SLURMD_NODENAME": "n1"})
    boot, found = node.root / "proc/sys/kernel/random/boot_id", []
    for boot_id in ("a", "b", "b"):
        boot.write_text(boot_id)
        outcome = run_once.run_checks(places, plans.Plan({}, "n1"), context, only=["kernel_log"])
        found.append(outcome.expect.run.first_run)
        node.run("healthcheck")
    assert found == [True, False, False]


def test_kill_9_at_any_moment_leaves_nothing_torn(node: NodeRoot) -> None:
    write_plan(node)
    draw = random.Random(4)
    for number in range(KILLS):
        hook = draw.choice(["prolog", "epilog", "healthcheck"])
        env = {"SLURMD_NODENAME": "n1", "SLURM_JOB_ID": str(number)}
        command = [str(CHECKOUT / hook / f"sguard-{hook}"), "--root", str(node.root)]
        running = subprocess.Popen(command, env=env, start_new_session=True, stdout=subprocess.DEVNULL)
        try:
            running.wait(timeout=draw.uniform(0, 0.09))
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    before = node.records()  # every file is whole, or this fails
    assert len({one["run_id"] for one in before}) == len(before)
    assert node.run("prolog", job=90_001).returncode == 0
    assert node.run("healthcheck").returncode == 0
    assert len(node.records()) == len(before) + 2


def test_hooks_of_many_jobs_at_once_lose_nothing(node: NodeRoot) -> None:
    write_plan(node)
    jobs = range(1, 13)
    for hook in ("prolog", "epilog"):
        shim = str(CHECKOUT / hook / f"sguard-{hook}")
        running = [
            subprocess.Popen(
                [shim, "--root", str(node.root)],
                env={"SLURMD_NODENAME": "n1", "SLURM_JOB_ID": str(job)},
                stdout=subprocess.DEVNULL,
            )
            for job in jobs
        ]
        assert [one.wait(timeout=60) for one in running] == [0] * len(running)
    filed = sorted((one["hook"], one["allocation"]["job_id"]) for one in node.records())
    assert filed == [(hook, job) for hook in ("epilog", "prolog") for job in jobs]
    assert not any("prolog" in one["coverage"] for one in node.records())
