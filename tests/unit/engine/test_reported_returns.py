"""A node comes back only when it is proven good: not before its storage is there, and by its own drain."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from .test_hook import write_plan

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import NodeRoot

REASON = "SG:memory_size.low"
ENFORCE = [["*", "*", "enforce"]]


def faults_file(node: NodeRoot) -> Path:
    return node.root / "var/lib/slurm-guard/faults.json"


def drained(node: NodeRoot, **expected: Any) -> None:
    """A node that we drained for its memory in an earlier boot; by now it has all of it."""
    (node.root / "proc/meminfo").write_text("MemTotal:       528482304 kB\n")
    refusing = node.root / "no-slurm"
    refusing.write_text("#!/bin/sh\necho 'Unable to contact slurm controller' >&2\nexit 1\n")
    refusing.chmod(0o755)
    write_plan(
        node,
        programs=dict.fromkeys(("sinfo", "scontrol", "squeue", "sacct"), str(refusing)),
        profiles=[{"expected": {"memory_gib": 512, **expected}, "modes": ENFORCE}],
        **{"return": {"clean_s": 0}},
    )
    claim = {"reason": REASON, "fault": "memory_size.low", "device": "", "check": "memory_size"}
    claim.update(at="2030-01-01T00:00:00.000Z", boot_id="the one before")
    faults_file(node).write_text(
        json.dumps({"version": 1, "open": {}, "clean_runs": 0, "drained": claim, "refusals": []})
    )


def clean_runs(node: NodeRoot) -> int:
    return int(json.loads(faults_file(node).read_text())["clean_runs"])


def asked_for_return(node: NodeRoot) -> bool:
    """True once a healthcheck has asked for the node's return: it waits on disk, or it was tried."""
    actions = [one for record in node.records() for one in record["actions"]]
    waiting = list((node.root / "var/lib/slurm-guard/requests").glob("resume*"))
    return bool(waiting) or any(one["action"] == "resume" for one in actions)


def test_a_fresh_boot_proves_nothing(node: NodeRoot) -> None:
    """Its mounts are still on their way, so none of these runs is a clean one."""
    drained(node, mounts=[{"path": "/scratch", "type": "lustre"}])
    mounted = node.root / "proc/self/mountinfo"
    mounted.parent.mkdir(parents=True)
    mounted.write_text("21 1 8:2 / / rw shared:1 - ext4 /dev/sda2 rw\n")
    (node.root / "proc/uptime").write_text("40.00 300.00\n")
    for _ in range(4):
        node.run("healthcheck")
    assert clean_runs(node) == 0
    assert not asked_for_return(node)
    (node.root / "proc/uptime").write_text("4000.00 30000.00\n")
    for _ in range(4):
        node.run("healthcheck")
    assert clean_runs(node) == 0, "the storage never came"
    assert not asked_for_return(node)
    assert "fs_mounts.missing /scratch" in json.loads(faults_file(node).read_text())["open"]


def test_clean_runs_after_the_grace_bring_it_back(node: NodeRoot) -> None:
    drained(node)
    (node.root / "proc/uptime").write_text("299.00 300.00\n")
    for _ in range(5):
        node.run("healthcheck")
    assert not asked_for_return(node)
    (node.root / "proc/uptime").write_text("301.00 300.00\n")
    for number in range(3):
        assert not asked_for_return(node), number
        node.run("healthcheck")
    assert node.said(f"{REASON}: resume failed: Slurm's controller did not answer")
    end = time.monotonic() + 20  # its record comes after its line in the system log
    while not asked_for_return(node):
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
def test_jobs_that_come_and_go_prove_nothing(node: NodeRoot, hook: str) -> None:
    drained(node)
    for job in range(4):
        node.run(hook, job=job)
    assert clean_runs(node) == 0
    assert not asked_for_return(node)


def test_another_machine_under_the_same_name_ends_no_drain(node: NodeRoot) -> None:
    """The old machine's reason stays in Slurm; the new one never wrote it, so it takes nothing back."""
    drained(node)
    faults_file(node).unlink()
    for _ in range(5):
        node.run("healthcheck")
    assert clean_runs(node) >= 3
    assert not asked_for_return(node)
