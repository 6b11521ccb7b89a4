"""Simulated nodes to run hooks on: a root folder with /proc, /sys, a kernel log, and a 200 KB plan."""

from __future__ import annotations

import json
import sysconfig
import time
from typing import TYPE_CHECKING, Any

from slurm_guard.core import plan

if TYPE_CHECKING:
    from pathlib import Path

    from minicluster.simulated import SimulatedMachine

NODE = "gpu0001"
PLAN_BYTES = 200_000
PROGRAMS = {name: f"/usr/bin/{name}" for name in ("scontrol", "sinfo", "squeue", "sacct")}


def bundle(profile: dict[str, Any], node: str = NODE, **settings: Any) -> dict[str, Any]:
    """A plan for 2,000 nodes, filled with other node classes up to 200 KB; the node has the given profile."""
    made: dict[str, Any] = {
        "schema": "1.0",
        "built_at": time.time(),
        "cluster": "bench",
        "owners": ["root"],
        "programs": PROGRAMS,
        "slurm_conf": "/nonexistent/slurm.conf",
        "python_path": [sysconfig.get_path("purelib")],
        "profiles": [profile],
        "nodes": {node: 0, **{f"gpu{index + 1:04d}": 0 for index in range(2000)}},
        "default_profile": {},
        **settings,
    }
    while len(json.dumps(made, separators=(",", ":"))) < PLAN_BYTES:
        made["profiles"].append(other_class(len(made["profiles"])))
    made["hash"] = plan.digest(made)
    return made


def other_class(number: int) -> dict[str, Any]:
    """A profile as large sites have dozens of: references for every metric, several mounts."""
    mounts = [
        {"path": f"/fs{fs}", "type": "lustre", "options": ["rw", "flock"], "shared": True} for fs in range(6)
    ]
    references = {f"metric_{number}_{index}": [400 + index, -0.05, None, "Gb/s"] for index in range(40)}
    return {
        "class": f"class{number}",
        "expected": {"gpus": 8, "ib_ports": 8, "mounts": mounts},
        "references": references,
        "modes": [["*", "drain", "enforce"]],
    }


def write_plan(root: Path, profile: dict[str, Any], **settings: Any) -> int:
    """Leave the plan where hooks below `root` look for it; returns its size in bytes."""
    target = root / "var/lib/slurm-guard/plan.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    data = plan.encode(bundle(profile, **settings))
    target.write_bytes(data)
    return len(data)


def plain_host(root: Path) -> None:
    """A healthy machine without GPUs and adapters, copied from this one's small /proc files."""
    kernel = root / "proc/sys/kernel/random"
    kernel.mkdir(parents=True)
    (root / "proc/self").mkdir()
    (kernel / "boot_id").write_text("11111111-2222-3333-4444-555555555555\n")
    (root / "proc/meminfo").write_text(
        "MemTotal:       65843036 kB\nMemFree:        60000000 kB\nMemAvailable:   61000000 kB\n"
    )
    (root / "proc/uptime").write_text("864000.10 1700000.20\n")
    (root / "proc/loadavg").write_text("0.10 0.12 0.09 1/200 4242\n")
    (root / "proc/self/mountinfo").write_text("21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n")
    (root / "sys/bus/pci/devices").mkdir(parents=True)
    (root / "sys/class/infiniband").mkdir(parents=True)
    (root / "dev").mkdir()
    lines = "".join(
        f"6,{number},{number * 1000},-;usb 1-1: new device number {number}\n" for number in range(500)
    )
    (root / "dev/kmsg").write_text(lines)


def gpu_host(folder: Path) -> SimulatedMachine:
    """A healthy machine of the test cluster, without Slurm: eight GPUs, eight adapters, three mounts."""
    from minicluster import nvml_library
    from minicluster.simulated import SimulatedMachine

    for name in ("run", "log"):  # where the servers of hanging mounts leave their files
        (folder / name).mkdir(parents=True)
    machine = SimulatedMachine(folder, NODE)
    machine.create("bench", nvml_library.build())
    return machine


def gpu_profile() -> dict[str, Any]:
    """What such a machine is expected to have."""
    mounts = [
        {"path": "/scratch", "type": "lustre", "options": ["rw"], "shared": True},
        {"path": "/home", "type": "nfs4", "options": ["rw"], "shared": True},
        {"path": "/local", "type": "xfs", "options": ["rw"], "shared": False},
    ]
    return {
        "class": "8xH100",
        "expected": {"gpus": 8, "ib_ports": 8, "mounts": mounts},
        "references": {"ib_rate": [400, -0.05, None, "Gb/s"]},
        "modes": [["*", "*", "enforce"]],
    }


def nvml_library(root: Path) -> str:
    """The path of a machine's NVML library as its plan names it, below the root."""
    (found,) = root.rglob("libnvidia-ml.so.1")
    return f"/{found.relative_to(root)}"


def last_record(root: Path) -> dict[str, Any]:
    """What the latest run on this machine recorded: a figure without a record measured nothing."""
    found = sorted(
        (root / "var/lib/slurm-guard/spool").glob("*.json"), key=lambda path: path.stat().st_mtime_ns
    )
    records: list[dict[str, Any]] = [json.loads(path.read_text()) for path in found]
    runs = [record for record in records if record["kind"] == "run"]
    if not runs:
        raise RuntimeError(f"the hook left no record below {root}: it did not run")
    return runs[-1]


def judged(record: dict[str, Any]) -> str:
    """Its outcome in a few words: how many checks judged something, and what was not a pass."""
    bad = [f"{result['check']} {result['status']}" for result in record["results"]]
    counted = len(record["passed"]) + len(bad)
    words = f"{counted} checks judged, {len(record['skipped'])} skipped"
    return f"{words}, {', '.join(bad)}" if bad else words
