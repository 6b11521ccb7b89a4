"""Realistic run records for tests, in the shape of docs/record.md."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

CHECKS = ["fs_mounts", "gpu_count", "gpu_ecc", "gpu_remap", "gpu_xid", "ib_errors", "ib_link", "memory_size"]
DAY = datetime(2027, 3, 9, 8, 0, 0, tzinfo=UTC)

_numbers = itertools.count(1)


def at(minutes: float) -> str:
    """A time of the day, so many minutes after 08:00 UTC, as records have it."""
    moment = DAY + timedelta(minutes=minutes)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def ms(minutes: float) -> int:
    """The same in milliseconds."""
    return round((DAY + timedelta(minutes=minutes)).timestamp() * 1000)


def uuid(gpu: int) -> str:
    """The UUID of a GPU of these nodes."""
    return f"GPU-5eed0000-0000-4000-8000-00000000000{gpu}"


def finding(
    fault: str, status: str = "fail", device: str = "", message: str = "", **more: Any
) -> dict[str, Any]:
    """A finding; GPUs get their UUID."""
    found: dict[str, Any] = {"fault": fault, "status": status, "message": message or f"{fault} was seen"}
    if device:
        found["device"] = device
    if device.startswith("gpu") and device[3:].isdigit():
        found["device_id"] = uuid(int(device[3:]))
    defaults = {"blame": "node", "scope": "device" if device else "node", "tier": "DRAIN"}
    return {**found, **defaults, **more}


def job(
    job_id: int, nodes: str, minutes: float, *, gpus: str = "01234567", restart: int = 0, **more: Any
) -> dict[str, Any]:
    """An allocation, opened so many minutes after 08:00."""
    given = {
        "job_id": job_id,
        "restart": restart,
        "uid": 4100,
        "user": "mira",
        "partition": "train",
        "nodes": nodes,
        "gpus": list(gpus),
        "opened_at": at(minutes),
    }
    return {**given, **more}


def run(hook: str, node: str, minutes: float, *findings: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A run record; what is not in a finding passed."""
    results: dict[str, Any] = {}
    order = ["pass", "skip", "unknown", "warn", "timeout", "fail"]
    for one in findings:
        check = one["fault"].partition(".")[0]
        result = results.setdefault(check, {"check": check, "status": one["status"], "findings": []})
        result["findings"].append(one)
        result["status"] = max(result["status"], one["status"], key=order.index)
    record = {
        "schema": "1.0",
        "kind": "run",
        "run_id": f"{next(_numbers):032x}",
        "cluster": "aurora",
        "node": node,
        "machine": {"boot_id": f"boot-{node}", "machine_id": f"id-{node}", "serial": f"SN{node}"},
        "hook": hook,
        "allocation": None,
        "others": [],
        "guard_version": "0.1.0",
        "check_set": "c0ffee00",
        "plan": {"hash": "9" * 32, "state": "ok", "problem": ""},
        "mode": "enforce",
        "drill": False,
        "started": at(minutes),
        "elapsed_ms": 41.5,
        "uptime_s": 500_000.0 + minutes * 60,
        "status": max((r["status"] for r in results.values()), key=order.index, default="pass"),
        "passed": [name for name in CHECKS if name not in results],
        "skipped": ["fs_space"],
        "results": list(results.values()),
        "coverage": {},
        "values": {},
        "growths": {},
        "decisions": [],
        "actions": [],
        "dropped": 0,
        "exit": 0,
    }
    return {**record, **more}


def action(
    kind: str, minutes: float, fault: str, device: str = "", outcome: str = "done", **more: Any
) -> dict[str, Any]:
    """An action object of a record."""
    reason = f"SG:{fault} {device}".strip() if kind in ("drain", "refuse") else ""
    found = {"action": kind, "fault": fault, "device": device, "reason": reason, "outcome": outcome}
    return {**found, "at": at(minutes), "calls": 2, **more}


def action_record(
    node: str, minutes: float, *actions: dict[str, Any], by: str = "healthcheck", **more: Any
) -> dict[str, Any]:
    """The record of a detached child or a person."""
    record = run("healthcheck", node, minutes)
    kept = {
        k: record[k]
        for k in ("schema", "run_id", "cluster", "node", "machine", "guard_version", "plan", "started")
    }
    return {**kept, "kind": "action", "parent": None, "by": by, "actions": list(actions), **more}


def spool(folder: Path, *records: dict[str, Any]) -> Path:
    """Write records to a spool, one file each."""
    folder.mkdir(parents=True, exist_ok=True)
    for record in records:
        (folder / f"{record['run_id']}.json").write_text(json.dumps(record))
    return folder
