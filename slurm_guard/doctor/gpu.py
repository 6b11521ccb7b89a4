"""NVML as the hooks use it: the binding, the library, the driver; in a child with a deadline."""

from __future__ import annotations

import json
import os
import select
import time
from typing import TYPE_CHECKING, Any

from slurm_guard.core.outcome import Facts
from slurm_guard.doctor.advice import Advice, Topic
from slurm_guard.doctor.node import alive
from slurm_guard.engine import child, files
from slurm_guard.probes import nvml

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_guard.doctor.subject import Subject

TOPIC = Topic("gpu")
DEADLINE_S = 10.0


def examine(subject: Subject) -> Iterator[Advice]:
    """Load NVML and count GPUs."""
    state = files.read_json(subject.places.state) or {}
    if any(one.get("probe") == "nvml" for one in alive(state.get("left_behind"))):
        yield TOPIC.unknown(
            "NVML hangs since an earlier run: it is not asked again", remedy="reboot the node"
        )
        return
    facts = ask(subject)
    expected = subject.plan.expected.get("gpus")
    if facts is None:
        yield TOPIC.bad(
            f"NVML gave no answer within {DEADLINE_S:g} s", remedy="look at `dmesg`; reboot the node"
        )
    elif facts["state"] != "ok":
        yield from _without_nvml(facts, expected)
    else:
        yield _count(facts, expected)


def _count(facts: dict[str, Any], expected: Any) -> Advice:
    """NVML answers: does it count what the class expects, and can every GPU be read?"""
    loads, count, remedy = _version(facts), facts["count"], "`sguard check run`, `sguard node NODE`"
    if isinstance(expected, int) and count < expected:
        return TOPIC.bad(f"{loads}: {count} of {expected} GPUs", remedy=remedy)
    broken = [f"gpu{one.get('index')} ({one['error']})" for one in facts.get("gpus", []) if one.get("error")]
    if broken:
        return TOPIC.bad(f"{loads}, but cannot read {', '.join(broken)}", remedy=remedy)
    return TOPIC.good(f"{loads}: {count} GPU{'' if count == 1 else 's'}", facts.get("library") or "")


def _version(facts: dict[str, Any]) -> str:
    return f"NVML loads, driver {facts.get('driver_version') or 'of unknown version'}"


def _without_nvml(facts: dict[str, Any], expected: Any) -> Iterator[Advice]:
    what = f"NVML: {facts['state']}: {facts.get('error') or 'no further word'}"
    if not expected and facts["state"] in ("no_library", "no_driver") and not facts.get("library_named"):
        yield TOPIC.skip(f"{what}; no GPUs are expected here")
        return
    remedies = {
        "no_library": "install the driver, or set `library` in [nvml], then `sguard config apply`",
        "no_driver": "load the kernel module: `modprobe nvidia`, then look at `dmesg`",
        "mismatch": "library and kernel module differ after an update: reload the module or reboot",
    }
    remedy = remedies.get(facts["state"], "run `nvidia-smi` and look at `dmesg`")
    if not facts.get("binding", True):
        remedy = "install nvidia-ml-py where the hooks find it, or set `python_path` in [nvml]"
    yield TOPIC.bad(what, facts.get("library") or "", remedy)


def ask(subject: Subject) -> dict[str, Any] | None:
    """NVML's facts, read by the hooks' own probe in a child; None if it hangs or dies."""
    request = Facts(nvml_library=subject.plan.nvml_library, python_path=subject.plan.python_path)

    def work(write_end: int) -> None:
        child.send(write_end, json.dumps(nvml.read(subject.places, request), default=str).encode())

    pid, read_end = child.spawn(work)
    try:
        answer = _read_all(read_end, time.monotonic() + DEADLINE_S)
    finally:
        os.close(read_end)
        child.kill_and_leave(pid)
    return json.loads(answer) if answer else None


def _read_all(read_end: int, end: float) -> bytes:
    """What the child sent until it closed its end; nothing if it did not in time."""
    parts: list[bytes] = []
    while select.select([read_end], [], [], max(end - time.monotonic(), 0))[0]:
        part = os.read(read_end, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
    return b""
