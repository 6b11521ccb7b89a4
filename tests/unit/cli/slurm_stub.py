"""A gateway in memory, and records as hooks leave them: what the commands' tests share."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from slurm_guard.core import plan as plans
from slurm_guard.core.errors import SlurmRefusedError
from slurm_guard.engine.clock import iso
from slurm_guard.slurm.gateway import Gateway, NodeState

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from slurm_guard.core.errors import SlurmError
    from slurm_guard.slurm.gateway import JobInfo, JobRun


class StubGateway(Gateway):
    """Slurm in memory: nodes by name, jobs and accounting by id; `error` is raised by every call."""

    def __init__(self, *nodes: NodeState) -> None:
        self.known = {node.name: node for node in nodes}
        self.jobs: dict[str, JobInfo] = {}
        self.runs: dict[str, list[JobRun]] = {}
        self.error: SlurmError | None = None
        self.written: list[tuple[str, str, str]] = []
        self.calls = 0

    def _called(self) -> None:
        self.calls += 1
        if self.error is not None:
            raise self.error

    def nodes(self, names: Iterable[str] | None = None, deadline: float = 3.0) -> list[NodeState]:
        self._called()
        wanted = None if names is None else set(names)
        for node in self.known.values():
            node.read_at = time.monotonic()
        return [node for node in self.known.values() if wanted is None or node.name in wanted]

    def node(self, name: str, deadline: float = 3.0) -> NodeState:
        found = self.nodes([name], deadline)
        if not found:
            raise SlurmRefusedError(f"sinfo: Invalid node name specified {name}")
        return found[0]

    def drain(self, name: str, reason: str, deadline: float = 3.0, comment: str | None = None) -> None:
        self._called()
        self.written.append(("drain", name, reason))
        self.known[name] = drained(name, reason)

    def resume(self, name: str, deadline: float = 3.0, comment: str | None = None) -> None:
        self._called()
        self.written.append(("resume", name, ""))
        self.known[name] = idle(name)

    def job(self, job_id: int | str, deadline: float = 3.0) -> JobInfo | None:
        self._called()
        return self.jobs.get(str(job_id))

    def accounting(self, job_id: int | str, deadline: float = 3.0) -> list[JobRun]:
        self._called()
        return self.runs.get(str(job_id), [])


def idle(name: str) -> NodeState:
    """A node in service."""
    return NodeState(name, "idle", partitions=("main",))


def drained(name: str, reason: str, user: str = "root") -> NodeState:
    """A drained node."""
    return NodeState(
        name,
        "idle",
        ["DRAIN"],
        reason=reason,
        reason_user=user,
        reason_time=1_790_000_000,
        partitions=("main",),
    )


def finding(fault: str, device: str, **fields: Any) -> dict[str, Any]:
    """A failed finding of a drain tier."""
    base = {
        "fault": fault,
        "device": device,
        "status": "fail",
        "message": f"{device} is bad",
        "tier": "DRAIN",
    }
    return {**base, "blame": "node", "scope": "device", **fields}


def run_record(node: str, *findings: dict[str, Any], ago_s: float = 60.0, **fields: Any) -> dict[str, Any]:
    """The record of a healthcheck."""
    checks = sorted({one["fault"].partition(".")[0] for one in findings})
    results = [
        {"check": check, "status": "fail", "findings": [f for f in findings if f["fault"].startswith(check)]}
        for check in checks
    ]
    record = {
        "schema": "1.0", "kind": "run", "run_id": os.urandom(16).hex(), "cluster": "lab", "node": node,
        "machine": {"boot_id": "b1", "machine_id": f"m-{node}"}, "hook": "healthcheck", "allocation": None,
        "others": [], "guard_version": "0", "check_set": "c",
        "plan": {"hash": "", "state": "ok", "problem": ""},
        "mode": "enforce", "drill": False, "started": iso(time.time() - ago_s), "elapsed_ms": 30.0,
        "uptime_s": 90000.0, "status": "fail" if findings else "pass",
        "passed": ["memory_size"], "skipped": [],
        "results": results, "coverage": {}, "values": {}, "growths": {}, "decisions": [], "actions": [],
        "dropped": 0, "exit": 0,
    }  # fmt: skip
    return {**record, **fields}


def action(
    kind: str, fault: str, device: str, outcome: str = "done", ago_s: float = 50.0, **fields: Any
) -> dict[str, Any]:
    """An action as it stands in a record."""
    reason = f"SG:{fault} {device}".strip()
    return {
        "action": kind, "fault": fault, "device": device, "reason": reason, "outcome": outcome,
        "why": "tier DRAIN", "at": iso(time.time() - ago_s), "calls": 2, **fields,
    }  # fmt: skip


def put(root: Path, *records: dict[str, Any]) -> None:
    """Leave records in the spool of a node's root."""
    spool = root / "var/lib/slurm-guard/spool"
    spool.mkdir(parents=True, exist_ok=True)
    for record in records:
        (spool / f"r-{time.time_ns() // 1000:016d}-{record['run_id']}.json").write_text(json.dumps(record))


def put_plan(root: Path, **bundle: Any) -> None:
    """Write a valid plan below a root."""
    content = {"schema": "1.0", "built_at": 4e9, "stale_after_s": 1e12, "cluster": "lab", **bundle}
    content["hash"] = plans.digest(content)
    folder = root / "var/lib/slurm-guard"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(json.dumps(content))
