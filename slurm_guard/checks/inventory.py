"""The machine and its GPUs are those that this node had before: what was swapped is told once.

No fault: a repaired node has another GPU, a replaced one another serial number. But what is on record of
`gpu3` before the swap concerns the card that is gone, so the swap stands in the node's history.
"""

from __future__ import annotations

from slurm_guard.core import gpus
from slurm_guard.core.check import Check, Fault, passed, skipped, warned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from slurm_guard.core.expectation import Expectation
    from slurm_guard.core.outcome import Finding


class Inventory(Check):
    """Compares GPUs by UUID and slot, and the machine by its serial number, with what is on record."""

    name = "inventory"
    probe = "nvml"
    scope = "device"
    tier = "NOTE"
    faults = {
        "gpu": Fault("NOTE", "another GPU in a known slot", remedy="Nothing, if it was swapped on purpose."),
        "machine": Fault(
            "NOTE",
            "another machine under this node's name",
            scope="node",
            remedy="Nothing, if it was replaced; what is on record before concerns the other machine.",
        ),
    }

    def judge(self, facts: Any, params: Any, expect: Expectation) -> Iterator[Finding]:
        """One finding for another machine, else one for each GPU that is not the one before."""
        before = expect.run.get("inventory") or {}
        found = list(_machine(before.get("now") or {}, before.get("machine") or {}))
        yield from found or _gpus(facts, before.get("gpus") or {})
        if not before.get("machine") and not before.get("gpus"):
            yield skipped("nothing is on record yet")
        else:
            yield passed()

    def judge_hang(self, hang: Any) -> Iterator[Finding]:
        """Others tell of the hang."""
        yield skipped(f"{hang.probe} did not answer in time")


def _machine(now: Any, before: Any) -> Iterator[Finding]:
    """The serial number decides where both are known: a cloned image brings its machine id along."""
    for name, text in (("serial", "serial number"), ("machine_id", "machine id")):
        if now.get(name) and before.get(name):
            if now[name] != before[name]:
                message = f"the {text} is {now[name]}, it was {before[name]}: another machine"
                yield warned(message, code="machine")
            return


def _gpus(nvml: Any, before: Any) -> Iterator[Finding]:
    slots = {uuid: pci for pci, uuid in before.items()}
    for gpu in gpus.readable(nvml) if nvml.state == "ok" else ():
        old = before.get(gpu.pci)
        if not gpu.uuid or not old or old == gpu.uuid:
            continue
        came = f", which was at {slots[gpu.uuid]}" if gpu.uuid in slots else ""
        message = f"{gpus.name(gpu)} at {gpu.pci} is {gpu.uuid}{came}; it was {old}"
        yield warned(message, code="gpu", **gpus.where(gpu))
