"""Made-up run records in the shape of docs/record.md: healthchecks of many nodes, and jobs in between."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

CLUSTER = "bench"
HEALTHCHECK_EVERY = timedelta(minutes=5)
CHECKS = [
    "fs_mounts", "fs_space", "gpu_count", "gpu_ecc", "gpu_pcie", "gpu_processes", "gpu_remap",
    "gpu_temperature", "gpu_xid", "ib_errors", "ib_link", "kernel_log", "memory_size",
]  # fmt: skip
#: Share of runs in which one check finds something, on all eight ports.
TROUBLE = 0.01


def moment(time: datetime) -> str:
    """UTC with milliseconds, as records have it."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03d}Z"


def node_name(index: int) -> str:
    """`gpu0001` and so on."""
    return f"gpu{index + 1:04d}"


def record(
    draw: random.Random,
    node: str,
    hook: str,
    time: datetime,
    trouble: float = TROUBLE,
) -> dict[str, Any]:
    """One run record; a share of them has a check that warns."""
    results = [warning()] if draw.random() < trouble else []
    bad = {result["check"] for result in results}
    return {
        "schema": "1.0",
        "kind": "run",
        "run_id": uuid.UUID(int=draw.getrandbits(128)).hex,
        "cluster": CLUSTER,
        "node": node,
        "machine": {"boot_id": f"boot-{node}", "machine_id": f"machine-{node}", "serial": f"S{node}"},
        "hook": hook,
        "allocation": None,
        "others": [],
        "guard_version": "0.1.0",
        "check_set": "0123456789abcdef",
        "plan": {"hash": "0" * 32, "state": "ok", "problem": ""},
        "mode": "enforce",
        "drill": False,
        "started": moment(time),
        "elapsed_ms": round(draw.uniform(25, 60), 1),
        "uptime_s": 86400.0,
        "status": "warn" if bad else "pass",
        "passed": [name for name in CHECKS if name not in bad],
        "skipped": [],
        "results": results,
        "coverage": {},
        "values": {},
        "growths": {},
        "decisions": [],
        "actions": [],
        "dropped": 0,
        "exit": 0,
    }


def warning() -> dict[str, Any]:
    """A result that is worth rows of its own."""
    findings = [port_finding(f"mlx5_{index}/1") for index in range(8)]
    return {"check": "ib_errors", "status": "warn", "findings": findings}


def port_finding(port: str) -> dict[str, Any]:
    """Symbol errors on one port."""
    return {
        "fault": "ib_errors.symbol",
        "status": "warn",
        "message": f"{port}: symbol errors grew by 3 since the last run, expected none",
        "device": port,
        "metric": "ib_symbol_errors",
        "value": 3,
        "blame": "fabric",
        "scope": "device",
        "tier": "WARN",
    }


def healthchecks(
    draw: random.Random, nodes: int, start: datetime, days: float, trouble: float = TROUBLE
) -> Iterator[dict[str, Any]]:
    """Every node's healthchecks, in order of time."""
    for step in range(int(timedelta(days=days) / HEALTHCHECK_EVERY)):
        time = start + step * HEALTHCHECK_EVERY
        for index in range(nodes):
            at = time + timedelta(milliseconds=37 * index)
            yield record(draw, node_name(index), "healthcheck", at, trouble=trouble)


def hour(draw: random.Random, nodes: int, start: datetime) -> Iterator[dict[str, Any]]:
    """What some nodes leave in an hour: twelve healthchecks each; one record in ten is of a job's hook."""
    hooks = nodes // 9
    for step in range(12):
        time = start + step * HEALTHCHECK_EVERY
        for index in range(nodes):
            at = time + timedelta(milliseconds=37 * index)
            yield record(draw, node_name(index), "healthcheck", at)
            if index < hooks:
                at += timedelta(seconds=1)
                yield job_run(draw, index, "epilog" if step % 2 else "prolog", at, step // 2 * nodes + index)


def job_run(draw: random.Random, node: int, hook: str, time: datetime, job: int) -> dict[str, Any]:
    """The prolog or, five minutes later, the epilog of a job on one node, with some thirty values."""
    opened = time if hook == "prolog" else time - HEALTHCHECK_EVERY
    allocation = {
        "job_id": job,
        "restart": 0,
        "uid": 1000,
        "user": "ada",
        "partition": "gpu",
        "nodes": node_name(node),
        "gpus": [str(gpu) for gpu in range(8)],
        "opened_at": moment(opened),
    }
    names = ("gpu_temperature", "gpu_memory_temperature", "gpu_pcie_replay")
    values = {f"{name} gpu{gpu}": draw.randint(30, 60) for name in names for gpu in range(8)}
    values.update({f"fs_used {path}": draw.random() for path in ("/", "/local", "/scratch", "/home")})
    growths = {f"ib_symbol_errors mlx5_{port}/1": 0 for port in range(8)} if hook == "epilog" else {}
    one = record(draw, node_name(node), hook, time)
    return {**one, "allocation": allocation, "values": values, "growths": growths}


def write_spool(folder: Path, records: Iterator[dict[str, Any]]) -> tuple[int, int]:
    """One file per record, named as hooks name them; returns the number of files and of bytes."""
    folder.mkdir(parents=True)
    files = size = 0
    for one in records:
        text = json.dumps(one, separators=(",", ":"))
        ordinary = one["hook"] == "healthcheck" and one["status"] == "pass"
        (folder / f"{'h' if ordinary else 'r'}-{files:016d}-{one['run_id']}.json").write_text(text)
        files, size = files + 1, size + len(text)
    return files, size
