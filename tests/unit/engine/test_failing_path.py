"""The failing path with Slurm's programs replaced by scripts: bounded, quiet, in no job's way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from slurm_guard.engine import child

from .conftest import CHECKOUT
from .test_hook import write_plan

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import NodeRoot

#: What `sinfo`, `scontrol` and `squeue` may do to us.
SICK_PROGRAMS = {
    "hangs": "exec sleep 300",
    "ignores SIGTERM": "trap '' TERM INT; while :; do sleep 1; done",
    "leaves a child on the pipe": "sleep 300 & echo nothing; exit 1",
    "says nothing": "exit 0",
    "says garbage": "head -c 4096 /dev/urandom",
    "fails": "echo 'slurm_load_node error: Unable to contact slurm controller' >&2; exit 1",
    "never stops talking": "yes slurm",
}


def sick_node(node: NodeRoot, body: str) -> None:
    """A node with too little memory, whose Slurm programs note that they were called and do `body`."""
    (node.root / "proc/meminfo").write_text("MemTotal:       104857600 kB\n")
    program = node.root / "slurm-program"
    program.write_text(f'#!/bin/sh\necho "$$" >> {node.root}/called\n{body}\n')
    program.chmod(0o755)
    write_plan(
        node,
        programs=dict.fromkeys(("sinfo", "scontrol", "squeue", "sacct"), str(program)),
        slurm_conf="/nonexistent/slurm.conf",
        profiles=[
            {"checks": {"memory_size": {}}, "expected": {"memory_gib": 512}, "modes": [["*", "*", "enforce"]]}
        ],
    )


def called(node: NodeRoot) -> list[int]:
    """The pids of the Slurm programs that were started."""
    log = node.root / "called"
    return [int(line) for line in log.read_text().split()] if log.exists() else []


def gone(pids: list[int]) -> bool:
    end = time.monotonic() + 60
    while any(child.describe(pid)[0] not in ("", "Z") for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def requests(node: NodeRoot) -> list[str]:
    folder = node.root / "var/lib/slurm-guard/requests"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize("body", SICK_PROGRAMS.values(), ids=SICK_PROGRAMS)
def test_the_epilog_is_bounded_and_its_request_waits(node: NodeRoot, body: str) -> None:
    sick_node(node, body)
    assert node.run("epilog", job=4).returncode == 0
    run, action = node.records()[:2]
    assert [(one["fault"], one["action"]) for one in run["decisions"]] == [("memory_size.low", "drain")]
    assert (action["kind"], action["parent"]) == ("action", run["run_id"])
    assert action["actions"][0]["outcome"] == "failed"
    assert requests(node) == ["drain.memory_size.low..json"]
    assert gone(called(node)[:1])  # the detached child that tries again has more patience


def test_the_next_prolog_heeds_the_request_that_waits(node: NodeRoot) -> None:
    sick_node(node, SICK_PROGRAMS["fails"])
    node.run("epilog", job=4)
    assert node.run("prolog", job=5).returncode == 1
    refused = [one for one in node.records() if one["kind"] == "action" and one["by"] == "prolog"]
    assert refused[0]["exit"] == 75
    assert node.said("SG:memory_size.low")


def test_a_request_of_the_boot_before_refuses_nothing(node: NodeRoot) -> None:
    sick_node(node, SICK_PROGRAMS["fails"])
    node.run("epilog", job=4)
    (node.root / "proc/sys/kernel/random/boot_id").write_text("another-boot\n")
    assert node.run("prolog", job=5).returncode == 0


def test_a_fault_that_is_gone_drops_its_request(node: NodeRoot) -> None:
    sick_node(node, SICK_PROGRAMS["fails"])
    node.run("epilog", job=4)
    wait_for(lambda: len(called(node)) == 2)  # the epilog's own try, and its detached child's
    (node.root / "proc/meminfo").write_text("MemTotal:       536870912 kB\n")
    node.run("healthcheck")
    wait_for(lambda: requests(node) == [])
    assert len(called(node)) == 2


def wait_for(condition: object, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_detached_child_keeps_neither_the_pipe_nor_the_group(node: NodeRoot) -> None:
    sick_node(node, "sleep 4; exit 1")
    shim = str(CHECKOUT / "healthcheck/sguard-healthcheck")
    with subprocess.Popen(
        [shim, "--root", str(node.root)],
        env={"SLURMD_NODENAME": "n1"},
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as running:
        assert running.stdout is not None
        running.stdout.read()  # ends when nobody holds the pipe any more
        assert running.wait(timeout=30) == 0
        assert called(node) == []  # the detached child has not even asked yet
        with pytest.raises(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)  # as slurmd does when a hook has ended
    wait_for(lambda: called(node) != [])
    wait_for(lambda: any(one["kind"] == "action" for one in node.records()))
    assert gone(called(node))


def test_a_healthy_run_calls_slurm_never(node: NodeRoot) -> None:
    sick_node(node, SICK_PROGRAMS["hangs"])
    (node.root / "proc/meminfo").write_text("MemTotal:       536870912 kB\n")
    for hook in ("prolog", "epilog", "healthcheck"):
        assert node.run(hook, job=1).returncode == 0
    assert called(node) == []


def test_observe_calls_slurm_never(node: NodeRoot, tmp_path: Path) -> None:
    sick_node(node, SICK_PROGRAMS["hangs"])
    path = node.root / "var/lib/slurm-guard/plan.json"
    plan = json.loads(path.read_text())
    plan["profiles"][0]["modes"] = []
    write_plan(node, **{key: plan[key] for key in ("programs", "slurm_conf", "profiles")})
    for hook in ("prolog", "epilog", "healthcheck"):
        assert node.run(hook, job=1).returncode == 0
    assert called(node) == []
    assert [one["outcome"] for record in node.records() for one in record["actions"]] == ["observed"] * 3
