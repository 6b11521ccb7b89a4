"""Faults of GPUs as devices: lost, missing, PCIe link, heat, processes, NVLink, MIG."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minicluster.faults.registry import Apply, Fault, Values, gpu_of, register
from minicluster.faults.xid import lost_lines
from minicluster.machine.kmsg import ERROR, Line
from minicluster.machine.model import Process

if TYPE_CHECKING:
    from minicluster.machine.model import Machine

MIB = 1 << 20
SPEEDS = {"1": "2.5", "2": "5.0", "3": "8.0", "4": "16.0", "5": "32.0"}  # PCIe generation: GT/s
HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, POWER_BRAKE = 0x08, 0x20, 0x40, 0x80  # clock event reasons
RECOVERY_ACTION = "field.230"


def _lost(machine: Machine, device: str, values: Values) -> None:
    gpu = gpu_of(machine, device)
    gpu.nvml["lost"] = "1"
    gpu.answers = False


def _lost_kernel(machine: Machine, device: str, values: Values) -> list[Line]:
    return lost_lines(gpu_of(machine, device))


def _missing(machine: Machine, device: str, values: Values) -> None:
    gpu_of(machine, device).present = False


def _nvml(**keys: str) -> Apply:
    def apply(machine: Machine, device: str, values: Values) -> None:
        gpu_of(machine, device).nvml.update(keys)

    return apply


def _recovery_action(number: int) -> Apply:
    return lambda machine, device, values: gpu_of(machine, device).nvml.update({RECOVERY_ACTION: str(number)})


def _reset_required(machine: Machine, device: str, values: Values) -> None:
    gpu_of(machine, device).nvml |= {"reset_required": "1", RECOVERY_ACTION: "1"}


def _pcie_width(machine: Machine, device: str, values: Values) -> None:
    gpu_of(machine, device).link_width = int(values["width"])


def _pcie_generation(machine: Machine, device: str, values: Values) -> None:
    gpu = gpu_of(machine, device)
    gpu.nvml["pcie_generation"] = values["generation"]
    gpu.link_speed = f"{SPEEDS.get(values['generation'], '32.0')} GT/s PCIe"


def _hot(machine: Machine, device: str, values: Values) -> None:
    gpu_of(machine, device).nvml |= {
        "temperature": values["celsius"],
        "temperature_margin": str(87 - int(values["celsius"])),
        "field.82": values["memory_celsius"],
    }


def _throttled(reasons: int) -> Apply:
    def apply(machine: Machine, device: str, values: Values) -> None:
        gpu_of(machine, device).nvml |= {
            "temperature": values["celsius"],
            "temperature_margin": str(87 - int(values["celsius"])),
            "clocks_event_reasons": hex(reasons),
            "clock_mhz.0": "540",
            "clock_mhz.1": "540",
            "violation_ns.0" if reasons & POWER_BRAKE else "violation_ns.1": "94000000000",
        }

    return apply


def _foreign_process(machine: Machine, device: str, values: Values) -> None:
    gpu = gpu_of(machine, device)
    used = int(values["mib"]) * MIB
    item = f"{values['pid']}:{used}"
    gpu.nvml["compute_processes"] = ",".join(filter(None, [gpu.nvml.get("compute_processes", ""), item]))
    gpu.nvml["memory_used"] = str(int(gpu.nvml.get("memory_used", "0")) + used)
    machine.nvml[f"process_name.{values['pid']}"] = values["name"]
    machine.processes.append(Process(int(values["pid"]), values["name"], int(values["uid"])))


def _leftover_memory(machine: Machine, device: str, values: Values) -> None:
    gpu = gpu_of(machine, device)
    gpu.nvml["memory_used"] = str(int(gpu.nvml.get("memory_used", "0")) + int(values["mib"]) * MIB)


def _nvlink_down(machine: Machine, device: str, values: Values) -> None:
    gpu_of(machine, device).nvml["nvlink_down"] = values["links"]


def _mig(machine: Machine, device: str, values: Values) -> None:
    gpu = gpu_of(machine, device)
    head, _, tail = gpu.uuid.removeprefix("GPU-").rpartition("-")
    gpu.mig = [f"MIG-{head}-{int(tail, 16) ^ (number + 1):012x}" for number in range(int(values["devices"]))]
    gpu.nvml["mig"] = "1"


def _aer_lines(machine: Machine, device: str, values: Values) -> list[Line]:
    address = gpu_of(machine, device).address
    text = f"nvidia {address}: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)"
    return [Line(text, ERROR, f"+pci:{address}")]


HEAT = {"celsius": "91", "memory_celsius": "98"}
PROCESS = {"pid": "31337", "mib": "2048", "name": "python3", "uid": "1000"}
for fault in (
    Fault(
        "gpu_count.lost",
        "gpu",
        "GPU fell off the bus: NVML says lost, Xid 79, PCI reads as ones",
        apply=_lost,
        lines=_lost_kernel,
    ),
    Fault("gpu_count.missing", "gpu", "GPU gone from the bus; the driver counts one less", apply=_missing),
    Fault("gpu_count.reset_required", "gpu", "NVML answers RESET_REQUIRED", apply=_reset_required),
    Fault("gpu_count.reboot_required", "gpu", "the driver asks for a reboot", apply=_recovery_action(2)),
    Fault("gpu_count.drain_p2p", "gpu", "the driver asks to drain P2P traffic", apply=_recovery_action(3)),
    Fault(
        "gpu_count.handle",
        "gpu",
        "NVML gives no handle (Unknown Error)",
        apply=_nvml(**{"ret.nvmlDeviceGetHandleByIndex_v2": "999"}),
    ),
    Fault(
        "gpu_count.unreadable",
        "gpu",
        "NVML answers Unknown Error to some questions",
        apply=_nvml(**{"ret.nvmlDeviceGetPowerUsage": "999", "ret.nvmlDeviceGetTemperature": "999"}),
    ),
    Fault("gpu_pcie.width", "gpu", "PCIe link too narrow", {"width": "8"}, _pcie_width),
    Fault("gpu_pcie.generation", "gpu", "PCIe link too slow", {"generation": "1"}, _pcie_generation),
    Fault(
        "gpu_pcie.replay",
        "gpu",
        "PCIe replays (counted until the next boot)",
        {"count": "4000"},
        counts={"pcie_replay": "count"},
    ),
    Fault("gpu_pcie.aer", "gpu", "the kernel tells of a corrected PCIe error", lines=_aer_lines),
    Fault("gpu_temperature.high", "gpu", "hot GPU and memory", HEAT, _hot),
    Fault("gpu_temperature.core", "gpu", "hot GPU", {**HEAT, "memory_celsius": "60"}, _hot),
    Fault("gpu_temperature.memory", "gpu", "hot memory", {**HEAT, "celsius": "60"}, _hot),
    Fault(
        "gpu_temperature.throttle",
        "gpu",
        "hardware thermal slowdown",
        {"celsius": "90"},
        _throttled(HW_SLOWDOWN | HW_THERMAL),
    ),
    Fault(
        "gpu_temperature.slowdown",
        "gpu",
        "the same as throttle",
        {"celsius": "90"},
        _throttled(HW_SLOWDOWN | HW_THERMAL),
    ),
    Fault(
        "gpu_temperature.hw_slowdown",
        "gpu",
        "hardware slowdown, not by heat",
        {"celsius": "55"},
        _throttled(HW_SLOWDOWN),
    ),
    Fault(
        "gpu_temperature.sw_slowdown",
        "gpu",
        "the driver slows down because of heat",
        {"celsius": "86"},
        _throttled(SW_THERMAL),
    ),
    Fault(
        "gpu_temperature.power_brake",
        "gpu",
        "slowed down from outside (power)",
        {"celsius": "55"},
        _throttled(HW_SLOWDOWN | POWER_BRAKE),
    ),
    Fault("gpu_processes.foreign", "gpu", "a process of nobody's job", PROCESS, _foreign_process),
    Fault(
        "gpu_processes.leftover", "gpu", "a process of uid that outlives its job", PROCESS, _foreign_process
    ),
    Fault(
        "gpu_processes.leftover_memory", "gpu", "memory without a process", {"mib": "4096"}, _leftover_memory
    ),
    Fault("gpu_processes.memory", "gpu", "the same as leftover_memory", {"mib": "4096"}, _leftover_memory),
    Fault("gpu_nvlink.down", "gpu", "NVLink links inactive", {"links": "5"}, _nvlink_down),
    Fault("gpu_mig.enabled", "gpu", "cut into MIG devices (not a fault in itself)", {"devices": "7"}, _mig),
):
    register(fault)
