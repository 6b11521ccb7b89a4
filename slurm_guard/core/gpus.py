"""What all GPU checks share: how a GPU is called, which ones can be judged, and whose they are."""

from __future__ import annotations

from slurm_guard.core.check import skipped, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from slurm_guard.core.expectation import Expectation
    from slurm_guard.core.outcome import Finding

NVIDIA = "0x10de"


def name(gpu: Any) -> str:
    """`gpu3`: the number of /dev/nvidia3, which Slurm uses too; NVML's index where that is not known."""
    return f"gpu{gpu.index if gpu.minor is None else gpu.minor}"


def where(gpu: Any) -> dict[str, Any]:
    """The fields `device` and `device_id` of a finding about this GPU."""
    found: dict[str, Any] = {"device": name(gpu)}
    if gpu.uuid or gpu.pci:
        found["device_id"] = gpu.uuid or gpu.pci
    return found


def readable(nvml: Any) -> list[Any]:
    """The GPUs that answered."""
    return [gpu for gpu in nvml.gpus if not gpu.error]


def not_judged(nvml: Any, expect: Expectation) -> Iterator[Finding]:
    """One finding for each reason why GPUs could not be looked at; `gpu_count` is the one that fails them."""
    if nvml.state != "ok":
        yield _no_nvml(nvml, expect)
    elif not nvml.gpus:
        yield skipped("no GPU is visible")
    for gpu in nvml.gpus:
        if gpu.error:
            yield unknown(f"{name(gpu)} cannot be read ({gpu.error}); see gpu_count", **where(gpu))


def _no_nvml(nvml: Any, expect: Expectation) -> Finding:
    absent = nvml.state in ("no_library", "no_driver")
    if absent and not expect.expected.get("gpus"):
        return skipped(f"no GPUs expected, and none to be seen ({nvml.state})")
    return unknown(f"NVML does not work ({nvml.state}): {nvml.error}; see gpu_count")


def unread(gpu: Any, *names: str) -> Iterator[Finding]:
    """`unknown` for each of these readings that the driver answered with an error."""
    for reading in names:
        if reading in gpu.errors:
            message = f"{name(gpu)}: {reading} cannot be read ({gpu.errors[reading]})"
            yield unknown(message, metric=reading, **where(gpu))


def garbage(gpu: Any, reading: str, value: Any, expected: str) -> Finding:
    """`unknown` for a reading that makes no sense."""
    message = f"{name(gpu)}: {reading} reads {value!r}, expected {expected}"
    return unknown(message, metric=reading, **where(gpu))


def named(gpu: Any, found: Finding) -> Finding:
    """The finding, with the GPU's name before whatever its message says."""
    if found.message:
        found.message = f"{name(gpu)}: {found.message}"
    return found


def on_bus(pci: Iterable[Any]) -> list[Any]:
    """NVIDIA's GPUs among the PCI devices."""
    return [device for device in pci if device.vendor == NVIDIA]


def names_by_address(nvml: Any, pci: Iterable[Any] | None) -> dict[str, tuple[str, str]]:
    """PCI address → (`gpu3`, UUID or address), also for GPUs that NVML can no longer identify.

    NVML lists GPUs in the order of their addresses, so the addresses on the bus that no readable GPU has
    belong to the unreadable ones, in order. What NVML does not list at all is numbered by its place on the
    bus, or called by its address where that number is taken.
    """
    bus = [device.address for device in on_bus(pci or ())]
    listed = [] if nvml is None else nvml.gpus
    found = {gpu.pci: (name(gpu), gpu.uuid or gpu.pci) for gpu in listed if gpu.pci}
    nameless = [gpu for gpu in listed if not gpu.pci]
    free = [address for address in bus if address not in found]
    if nameless and len(free) == len(nameless):
        found.update((address, (name(gpu), address)) for gpu, address in zip(nameless, free))
    taken = {name(gpu) for gpu in listed}
    for place, address in enumerate(bus):
        if address not in found:
            found[address] = (address if f"gpu{place}" in taken else f"gpu{place}", address)
    return found


def owns(allocation: Any, gpu: Any) -> bool:
    """True if one of the allocation's GPU tokens (index, UUID, MIG UUID) is on this GPU."""
    return any(matches(token, gpu) for token in allocation.get("gpus") or ())


def matches(token: str, gpu: Any) -> bool:
    """True if a token of a GPU list means this GPU or one of its MIG devices."""
    if token.isdigit():
        return name(gpu) == f"gpu{token}"
    if gpu.uuid and gpu.uuid.lower() in token.lower():  # also `MIG-GPU-<uuid>/<instance>/<instance>`
        return True
    return mig_instance(token, gpu) is not None


def mig_instance(token: str, gpu: Any) -> int | None:
    """The GPU instance that a MIG token means on this GPU; None for anything else."""
    for device in (gpu.mig or {}).get("devices", ()):
        old_form = f"MIG-{gpu.uuid}/{device['gi']}/{device['ci']}"
        if token.lower() in (device["uuid"].lower(), old_form.lower()):
            return int(device["gi"])
    return None
