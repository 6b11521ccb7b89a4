"""Every expected GPU is on the PCI bus, known to the driver, and answers. The PCI bus is the referee."""

from __future__ import annotations

from slurm_guard.core import gpus
from slurm_guard.core.check import Check, Fault, failed, skipped, unknown, warned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from slurm_guard.core.expectation import Expectation
    from slurm_guard.core.outcome import Finding

#: NVML's recovery action (field 230) → (fault, what the driver asks for); 0 is "none".
_ACTIONS = {
    1: ("reset_required", "a GPU reset"),
    2: ("reboot_required", "a reboot of the node"),
    3: ("drain_p2p", "its peer-to-peer traffic to be drained"),
    4: ("reset_required", "the node to be drained and the GPU reset"),
    5: ("drain_p2p", "its IMEX domain to be restarted"),
    6: ("reset_required", "a reset of the GPU's bus"),
    7: ("reboot_required", "a reboot of the system"),
}
_ERRORS = {"GpuIsLost": "lost", "ResetRequired": "reset_required"}


class GpuCount(Check):
    """See the module's docstring. `gpus`: how many are expected; None takes the node class's value."""

    name = "gpu_count"
    probes = ("nvml", "pci")
    tier = "DRAIN"
    remedy = "Look at `dmesg` and `lspci -d 10de:`; if the GPU stays away after a reboot, open an RMA."
    params = {"gpus": None}
    expects = "gpus"
    faults = {
        "lost": Fault(
            "DRAIN_REBOOT",
            "The GPU fell off the bus: the driver calls it lost, or it answers reads with ones.",
            remedy="Reboot the node (a cold power cycle if it comes back); after two reboots open an RMA.",
            sure=True,
            refuse=True,
        ),
        "missing": Fault(
            "DRAIN_REBOOT",
            "The GPU is not on the PCI bus.",
            remedy="Reboot the node; if it stays away, reseat the GPU or its riser, then open an RMA.",
            sure=True,
            refuse=True,
        ),
        "none": Fault(
            "DRAIN",
            "Not one of the expected GPUs is on the PCI bus.",
            remedy="Check the node class, the power of the GPU tray and the firmware's settings.",
            scope="node",
        ),
        "handle": Fault(
            "DRAIN_REBOOT",
            "The driver lists the GPU and gives no access to it.",
            remedy="Reboot the node; if it comes back, run `dcgmi diag -r 3` and open an RMA.",
            refuse=True,
        ),
        "unreadable": Fault(
            "DRAIN_RESET",
            "The driver answers Unknown Error to some questions about the GPU.",
            remedy="Reset the GPU when idle; `nvidia-smi -q` shows ERR! where it still fails.",
        ),
        "reset_required": Fault(
            "DRAIN_RESET",
            "The driver says that the GPU must be reset.",
            remedy="Drain the node and reset the GPU: `nvidia-smi --gpu-reset -i GPU`.",
            sure=True,
            refuse=True,
        ),
        "reboot_required": Fault(
            "DRAIN_REBOOT",
            "The driver says that the node must be rebooted.",
            remedy="Drain and reboot the node.",
            sure=True,
            refuse=True,
        ),
        "drain_p2p": Fault(
            "DRAIN",
            "The driver says that the GPU's peer traffic or its IMEX domain must be drained.",
            remedy="Drain the node, then restart the fabric manager (or IMEX) and look at NVLink.",
        ),
        "no_driver": Fault(
            "DRAIN",
            "GPUs are expected and the driver is not loaded: software, not hardware.",
            remedy="`modprobe nvidia`, then `dmesg | grep NVRM`; reinstall the driver for this kernel.",
            scope="node",
            grace=True,
        ),
        "no_library": Fault(
            "DRAIN",
            "The kernel module is loaded and libnvidia-ml.so.1 is not installed: software, not hardware.",
            remedy="Install the driver's user-space libraries in the kernel module's version.",
            scope="node",
        ),
        "mismatch": Fault(
            "DRAIN_REBOOT",
            "The driver's library and kernel module differ in version: software, not hardware.",
            remedy="Let running jobs end, then reboot or reload the nvidia modules; pin the packages.",
            scope="node",
            sure=True,
        ),
        "nvml_error": Fault(
            "DRAIN_REBOOT",
            "The driver's library does not start.",
            remedy="`nvidia-smi` and `dmesg | grep NVRM` say more; reload the driver or reboot.",
            scope="node",
        ),
    }

    def judge(self, facts: Any, params: Any, expect: Expectation) -> Iterator[Finding]:
        """Yield findings on the driver, on each GPU, and on the count."""
        view = _View(facts, expect.expected.get("gpus") if params["gpus"] is None else params["gpus"])
        if facts.nvml is None:
            yield unknown(f"NVML: {facts.problems.get('nvml', 'no answer')}", metric="gpus")
        elif facts.nvml.state != "ok":
            yield _no_nvml(facts.nvml, view)
        else:
            for gpu in view.visible:
                yield from _gpu(gpu, view)
            yield from _count(view, expect)
        yield from _bus(view)


class _View:
    """The GPUs as the driver, the bus and the plan see them; `bus` is None where it is no referee."""

    def __init__(self, facts: Any, wanted: int | None) -> None:
        works = facts.nvml is not None and facts.nvml.state == "ok"
        self.visible = [gpu for gpu in facts.nvml.gpus if gpu.error != "NoPermission"] if works else []
        self.broken = [gpu for gpu in self.visible if gpu.error]
        self.bus = None if facts.pci is None else gpus.on_bus(facts.pci)
        if not self.bus and len(self.visible) > len(self.broken):
            self.bus = None  # GPUs that answer are on a bus, so this one cannot be seen from here
        self.names = gpus.names_by_address(facts.nvml, facts.pci)
        self.addresses = {name: address for address, (name, _) in self.names.items()}
        self.is_configured = wanted is not None
        self.wanted = len(self.bus) if wanted is None and self.bus else wanted

    def dead(self) -> list[Any]:
        """Devices on the bus that read as ones, without those that the driver calls broken itself."""
        known = {self.addresses.get(gpus.name(gpu)) for gpu in self.broken}
        return [device for device in self.bus or () if device.config_dead and device.address not in known]

    def missing(self) -> int:
        """How many GPUs the bus lacks; a broken one that has left the bus is not counted again."""
        if self.bus is None or not self.wanted:
            return 0
        gone = sum(1 for gpu in self.broken if gpus.name(gpu) not in self.addresses)
        return max(0, self.wanted - len(self.bus) - gone)

    def hidden(self) -> int:
        """How many living GPUs on the bus the driver does not show."""
        listed = {gpus.name(gpu) for gpu in self.visible}
        dead = {device.address for device in self.dead()}
        unlisted = [a for a, (name, _) in self.names.items() if name not in listed and a not in dead]
        return 0 if self.bus is None else len(unlisted)

    def gap(self) -> str:
        """The name of the missing GPU, if the numbers of the others leave exactly one gap between them."""
        numbers = [gpu.minor for gpu in self.visible if gpu.minor is not None]
        gaps = sorted(set(range(max(numbers, default=0))) - set(numbers))
        return f"gpu{gaps[0]}" if len(gaps) == 1 == self.missing() else ""


def _no_nvml(nvml: Any, view: _View) -> Finding:
    """Why NVML does not work, and whether that matters here."""
    if not view.wanted and nvml.state in ("no_library", "no_driver"):
        return _no_driver_needed(nvml, view)
    if not nvml.binding:
        return unknown(f"{nvml.error}; run `sguard doctor`", metric="gpus")
    code, message = _why(nvml)
    if not code:
        return unknown(message, metric="gpus")
    if view.is_configured:
        return failed(f"{view.wanted or 'no'} GPUs expected, and {message}", code=code, metric="gpus")
    return warned(f"{view.wanted or 'no'} GPUs on the PCI bus, and {message}", code=code, metric="gpus")


def _no_driver_needed(nvml: Any, view: _View) -> Finding:
    """No driver where no GPU is expected; without an expectation it is the bus that says so."""
    if view.is_configured:
        seen = "the PCI bus cannot be read" if view.bus is None else f"{len(view.bus)} on the PCI bus"
        return skipped(f"no GPUs expected, {seen}, and no driver ({nvml.state})", metric="gpus", value=0)
    if view.bus is None:
        message = (
            "whether GPUs are there is not known: none configured, no driver, the PCI bus cannot be read"
        )
        return unknown(message, metric="gpus")
    return skipped("no GPUs expected and none on the PCI bus", metric="gpus", value=0)


def _why(nvml: Any) -> tuple[str, str]:
    """(fault, sentence) for NVML's state; no fault where it may be the guard's own or a limited view."""
    if nvml.state == "mismatch":
        library = nvml.nvml_version or "of another version"
        return "mismatch", f"the library is {library}, the kernel module {nvml.kernel_version}: not hardware"
    if nvml.kernel_version is None and nvml.state in ("no_driver", "no_library"):
        return "no_driver", "the driver's kernel module is not loaded"
    if nvml.state == "no_driver":
        return "no_driver", f"the driver does not answer: {nvml.error}"
    if nvml.state == "no_library":
        if nvml.library_named and not nvml.code:
            return (
                "",
                f"the library that the plan names cannot be loaded ({nvml.error}): correct `nvml_library`",
            )
        return "no_library", f"the driver's library cannot be loaded: {nvml.error}"
    if nvml.code in (15, 999):
        return "nvml_error", f"NVML does not start: {nvml.error}"
    return "", f"NVML does not start: {nvml.error}"


def _gpu(gpu: Any, view: _View) -> Iterator[Finding]:
    """A GPU that is lost, wants a reset, or cannot be read."""
    at = gpus.where(gpu)
    address = view.addresses.get(at["device"])
    if address:
        at.setdefault("device_id", address)
    label = f"{at['device']} ({address})" if address else at["device"]
    if gpu.error in _ERRORS:
        yield failed(f"{label}: the driver answers {gpu.error}", code=_ERRORS[gpu.error], **at)
    elif gpu.error:
        yield failed(f"{label}: the driver gives no access to it ({gpu.error})", code="handle", **at)
    else:
        yield from _answers(gpu, label, at)


def _answers(gpu: Any, label: str, at: dict[str, Any]) -> Iterator[Finding]:
    """What the driver itself asks for comes first: it is the cause of readings that fail."""
    action = gpu["values"].get("recovery_action", 0)
    if action in _ACTIONS:
        code, wish = _ACTIONS[action]
        yield failed(
            f"{label}: the driver asks for {wish}", code=code, metric="recovery_action", value=action, **at
        )
    elif action:
        yield unknown(f"{label}: recovery action {action!r} is not known", metric="recovery_action", **at)
    elif gpu.errors.get("recovery_action", "Unknown") != "Unknown":
        yield from gpus.unread(gpu, "recovery_action")
    unreadable = sorted(name for name, why in gpu.errors.items() if why == "Unknown")
    if unreadable:
        yield failed(f"{label}: Unknown Error for {', '.join(unreadable)}", code="unreadable", **at)


def _bus(view: _View) -> Iterator[Finding]:
    """What the bus itself shows: devices that read as ones, and devices that are not there."""
    for device in view.dead():
        name, identity = view.names[device.address]
        message = f"{name} ({device.address}) answers PCI configuration reads with ones"
        yield failed(message, code="lost", device=name, device_id=identity)
    missing, found = view.missing(), len(view.bus or ())
    if missing and not found and not view.broken:
        yield failed(f"none of {view.wanted} GPUs is on the PCI bus", code="none", metric="gpus", value=0)
    elif missing:
        message = f"{found} of {view.wanted} GPUs are on the PCI bus"
        at = {"metric": "gpus", "value": found, "reference": [view.wanted, 0, 0]}
        yield failed(message, code="missing", device=view.gap() or None, **at)


def _count(view: _View, expect: Expectation) -> Iterator[Finding]:
    """Compare the driver's count with what is expected; fewer than on the bus is a constrained view."""
    seen = len(view.visible)
    counted = expect.count("gpus", seen, view.wanted)
    message = f"the driver shows {seen} of {view.wanted} GPUs"
    if counted.status != "fail":
        yield counted
    elif view.bus is None:
        yield unknown(f"{message} and the PCI bus cannot be read", metric="gpus")
    elif view.hidden():
        message = f"{message}, {len(view.bus)} are on the PCI bus: a constrained view,"
        yield unknown(f"{message} or GPUs that the driver could not start", metric="gpus")
