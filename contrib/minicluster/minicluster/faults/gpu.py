"""Faults of GPUs: lost, missing, memory errors, link, heat, processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minicluster.faults.registry import Fault, Values, gpu_of, register
from minicluster.faults.xid import lost_lines, xid_line
from minicluster.machine.kmsg import ERROR, Line
from minicluster.machine.model import Process

if TYPE_CHECKING:
    from minicluster.machine.model import Machine

MIB = 1 << 20
HW_SLOWDOWN, HW_THERMAL_SLOWDOWN = 0x8, 0x40


def lost(machine: Machine, device: str, values: Values) -> None:
    gpu = gpu_of(machine, device)
    gpu.nvml["lost"] = "1"
    gpu.answers = False


def lost_kernel(machine: Machine, device: str, values: Values) -> list[Line]:
    return lost_lines(gpu_of(machine, device))


def missing(machine: Machine, device: str, values: Values) -> None:
    gpu_of(machine, device).present = False


def reset_required(machine: Machine, device: str, values: Values) -> None:
    gpu_of(machine, device).nvml |= {"reset_required": "1", "field.230": "1"}


def ecc_uncorrected(machine: Machine, device: str, values: Values) -> None:
    location = {"dram": "2", "sram": "7"}.get(values["location"], values["location"])
    gpu_of(machine, device).nvml |= {
        "ecc.volatile.uncorrected": values["count"],
        "ecc.aggregate.uncorrected": values["count"],
        f"ecc.volatile.uncorrected.{location}": values["count"],
        f"ecc.aggregate.uncorrected.{location}": values["count"],
    }


def ecc_uncorrected_kernel(machine: Machine, device: str, values: Values) -> list[Line]:
    return [xid_line(gpu_of(machine, device), 48)] if values["kernel_line"] == "yes" else []


def ecc_corrected(machine: Machine, device: str, values: Values) -> None:
    gpu_of(machine, device).nvml |= {
        "ecc.volatile.corrected": values["count"],
        "ecc.aggregate.corrected": values["count"],
        "ecc.volatile.corrected.2": values["count"],
        "ecc.aggregate.corrected.2": values["count"],
    }


def sram_threshold(machine: Machine, device: str, values: Values) -> None:
    gpu_of(machine, device).nvml |= {
        "sram_ecc.threshold_exceeded": "1",
        "sram_ecc.aggregate.uncorrected_parity": values["count"],
        "sram_ecc.bucket.sm": values["count"],
        "ecc.aggregate.uncorrected.7": values["count"],
    }


def remap_pending(machine: Machine, device: str, values: Values) -> None:
    gpu_of(machine, device).nvml |= {"remap_pending": "1", "remap_uncorrected": values["rows"]}


def remap_pending_kernel(machine: Machine, device: str, values: Values) -> list[Line]:
    return [xid_line(gpu_of(machine, device), 63)] if values["kernel_line"] == "yes" else []


def remap_failure(machine: Machine, device: str, values: Values) -> None:
    gpu_of(machine, device).nvml |= {"remap_failure": "1", "remap_uncorrected": values["rows"], "remap_banks.none": "1"}


def remap_failure_kernel(machine: Machine, device: str, values: Values) -> list[Line]:
    return [xid_line(gpu_of(machine, device), 64)] if values["kernel_line"] == "yes" else []


def pcie_width(machine: Machine, device: str, values: Values) -> None:
    gpu_of(machine, device).link_width = int(values["width"])


def pcie_generation(machine: Machine, device: str, values: Values) -> None:
    gpu = gpu_of(machine, device)
    speeds = {"1": "2.5", "2": "5.0", "3": "8.0", "4": "16.0", "5": "32.0"}
    gpu.nvml["pcie_generation"] = values["generation"]
    gpu.link_speed = f"{speeds.get(values['generation'], '32.0')} GT/s PCIe"


def temperature_high(machine: Machine, device: str, values: Values) -> None:
    gpu_of(machine, device).nvml |= {
        "temperature": values["celsius"],
        "temperature_margin": str(85 - int(values["celsius"])),
        "field.82": values["memory_celsius"],
    }


def temperature_throttle(machine: Machine, device: str, values: Values) -> None:
    gpu_of(machine, device).nvml |= {
        "temperature": values["celsius"],
        "temperature_margin": "-2",
        "clocks_event_reasons": hex(HW_SLOWDOWN | HW_THERMAL_SLOWDOWN),
        "clock_mhz.0": "540",
        "clock_mhz.1": "540",
        "violation_ns.1": "94000000000",
    }


def foreign_process(machine: Machine, device: str, values: Values) -> None:
    gpu = gpu_of(machine, device)
    used = int(values["mib"]) * MIB
    item = f"{values['pid']}:{used}"
    gpu.nvml["compute_processes"] = ",".join(filter(None, [gpu.nvml.get("compute_processes", ""), item]))
    gpu.nvml["memory_used"] = str(int(gpu.nvml.get("memory_used", "0")) + used)
    machine.nvml[f"process_name.{values['pid']}"] = values["name"]
    machine.processes.append(Process(int(values["pid"]), values["name"], int(values["uid"])))


def leftover_memory(machine: Machine, device: str, values: Values) -> None:
    gpu_of(machine, device).nvml["memory_used"] = str(int(values["mib"]) * MIB)


def ecc_off(machine: Machine, device: str, values: Values) -> None:
    gpu_of(machine, device).nvml |= {"ecc_mode": "0", "ecc_mode_pending": "0"}


def nvlink_down(machine: Machine, device: str, values: Values) -> None:
    gpu_of(machine, device).nvml["nvlink_down"] = values["links"]


def mig_mode(machine: Machine, device: str, values: Values) -> None:
    gpu = gpu_of(machine, device)
    head, _, tail = gpu.uuid.removeprefix("GPU-").rpartition("-")
    gpu.mig = [f"MIG-{head}-{int(tail, 16) ^ (number + 1):012x}" for number in range(int(values["devices"]))]
    gpu.nvml["mig"] = "1"


def aer_lines(machine: Machine, device: str, values: Values) -> list[Line]:
    address = gpu_of(machine, device).address
    return [
        Line(f"nvidia {address}: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)", ERROR,
             f"+pci:{address}"),
    ]


WITH_LINE = {"kernel_line": "yes"}
for fault in (
    Fault("gpu_count.lost", "gpu", "GPU fell off the bus: NVML says lost, Xid 79, PCI reads as ones",
          apply=lost, lines=lost_kernel),
    Fault("gpu_count.missing", "gpu", "GPU gone from the PCI bus; the driver counts one less", apply=missing),
    Fault("gpu_count.reset_required", "gpu", "NVML answers RESET_REQUIRED", apply=reset_required),
    Fault("gpu_ecc.uncorrected", "gpu", "uncorrected ECC errors (volatile and aggregate), Xid 48",
          {"count": "1", "location": "dram", **WITH_LINE}, ecc_uncorrected, ecc_uncorrected_kernel),
    Fault("gpu_ecc.corrected", "gpu", "many corrected ECC errors", {"count": "60000000"}, ecc_corrected),
    Fault("gpu_ecc.sram_threshold", "gpu", "SRAM error threshold exceeded", {"count": "4"}, sram_threshold),
    Fault("gpu_ecc.off", "gpu", "ECC is switched off", apply=ecc_off),
    Fault("gpu_remap.pending", "gpu", "row remapping waits for a reset, Xid 63", {"rows": "1", **WITH_LINE},
          remap_pending, remap_pending_kernel),
    Fault("gpu_remap.failure", "gpu", "row remapping failed, Xid 64", {"rows": "8", **WITH_LINE},
          remap_failure, remap_failure_kernel),
    Fault("gpu_pcie.width", "gpu", "PCIe link narrower than it should be", {"width": "8"}, pcie_width),
    Fault("gpu_pcie.generation", "gpu", "PCIe link slower than it should be", {"generation": "1"}, pcie_generation),
    Fault("gpu_pcie.replay", "gpu", "PCIe replays (counted until the next boot)", {"count": "4000"},
          counts={"pcie_replay": "count"}),
    Fault("gpu_pcie.aer", "gpu", "a PCIe error line of the kernel", lines=aer_lines),
    Fault("gpu_temperature.high", "gpu", "hot GPU and memory", {"celsius": "91", "memory_celsius": "98"},
          temperature_high),
    Fault("gpu_temperature.throttle", "gpu", "hardware thermal slowdown", {"celsius": "90"}, temperature_throttle),
    Fault("gpu_processes.foreign", "gpu", "a process of nobody's job uses the GPU",
          {"pid": "31337", "mib": "2048", "name": "python3", "uid": "1000"}, foreign_process),
    Fault("gpu_processes.leftover_memory", "gpu", "memory in use without a process", {"mib": "4096"}, leftover_memory),
    Fault("gpu_nvlink.down", "gpu", "NVLink links inactive", {"links": "5"}, nvlink_down),
    Fault("gpu_mig.enabled", "gpu", "GPU cut into MIG devices (not a fault in itself)", {"devices": "7"}, mig_mode),
):
    register(fault)
