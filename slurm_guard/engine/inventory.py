"""Which machine and which GPUs this node had when it was last looked at. Survives reboots, as swaps need one.

Shape of the file: `{"version": 1, "machine": {"serial", "machine_id"}, "gpus": {PCI address: UUID}}`.
"""

from __future__ import annotations

from slurm_guard.core import gpus
from slurm_guard.engine import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.outcome import CheckResult
    from slurm_guard.core.paths import Places

VERSION = 1
_IDENTITY = ("serial", "machine_id")
#: A node has 16 GPUs at most; slots that a card has left are kept, since it may come back.
_MOST_SLOTS = 64


def load(places: Places) -> dict[str, Any]:
    """What is on record; empty where the file is absent or torn."""
    content = files.read_json(places.inventory)
    if content is None or content.get("version") != VERSION:
        return {}
    return {name: _words(content.get(name)) for name in ("machine", "gpus")}


def _words(found: Any) -> dict[str, str]:
    items = found.items() if isinstance(found, dict) else ()
    return {name: value for name, value in items if isinstance(value, str)}


def save(places: Places, nvml: Any, machine: dict[str, str]) -> None:
    """Take in what a run saw: `clock.machine`, and NVML's facts or None.

    Nothing is written where that is on record already. Raises OSError.
    """
    before = load(places)
    seen = {
        gpu.pci: gpu.uuid
        for gpu in (gpus.readable(nvml) if nvml and nvml.state == "ok" else ())
        if gpu.pci and gpu.uuid
    }
    slots = {pci: uuid for pci, uuid in before.get("gpus", {}).items() if uuid not in seen.values()}
    known = {**before.get("machine", {}), **{name: machine[name] for name in _IDENTITY if machine.get(name)}}
    found = {"machine": known, "gpus": dict(sorted({**slots, **seen}.items())[:_MOST_SLOTS])}
    if found != before and (known or seen):
        files.make_folder(places.var)
        files.write_json(places.inventory, {"version": VERSION, **found})


def swapped(results: list[CheckResult]) -> set[str]:
    """The devices (`gpu3`) that a run found to be others than before: their memory is another card's."""
    findings = [one for result in results if result.check == "inventory" for one in result.findings]
    return {one.device for one in findings if one.code == "gpu" and one.device}
