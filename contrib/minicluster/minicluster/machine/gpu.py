"""GPUs: the state file of the NVML double, and /proc/driver/nvidia."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minicluster.machine.model import Gpu, Machine

LIBRARY_FOLDER = "usr/lib/x86_64-linux-gnu"
STATE_FILE = f"{LIBRARY_FOLDER}/nvml-state.ini"
GIB = 1 << 30

# Keys as in nvml_double/*.c. Numbers in brackets of NVML's enumerations are part of the key.
DEFAULTS = {
    "name": "NVIDIA H100 80GB HBM3",
    "vbios_version": "96.00.99.00.01",
    "inforom_version": "G520.0200.00.05",
    "board_part_number": "692-2G520-0200-000",
    "gsp_version": "550.127.08",
    "gsp_mode": "1",
    "architecture": "9",
    "brand": "14",
    "cuda_capability_major": "9",
    "cuda_capability_minor": "0",
    "gpu_cores": "16896",
    "memory_bus_width": "5120",
    "persistence_mode": "1",
    "compute_mode": "0",
    "pci_device_id": "0x233010DE",
    "pci_subsystem_id": "0x16C110DE",
    "memory_total": str(80 * GIB - 384 * (1 << 20)),
    "memory_reserved": str(591 * (1 << 20)),
    "memory_used": "0",
    "bar1_total": str(128 * GIB),
    "bar1_used": str(1 << 20),
    "temperature": "31",
    "temperature_margin": "54",
    "temperature_threshold.0": "92",  # shutdown
    "temperature_threshold.1": "89",  # slowdown
    "temperature_threshold.2": "95",  # memory, maximum
    "temperature_threshold.3": "87",  # GPU, maximum
    "performance_state": "0",
    "power_mw": "69500",
    "power_management_mode": "1",
    "power_limit_mw": "700000",
    "power_default_limit_mw": "700000",
    "power_enforced_limit_mw": "700000",
    "power_limit_min_mw": "200000",
    "power_limit_max_mw": "700000",
    "energy_mj": "8400000",
    "clock_mhz.0": "1980",
    "clock_mhz.1": "1980",
    "clock_mhz.2": "2619",
    "clock_max_mhz.0": "1980",
    "clock_max_mhz.1": "1980",
    "clock_max_mhz.2": "2619",
    "clocks_event_reasons": "0x1",
    "clocks_event_reasons_supported": "0x1ff",
    "violation_ns.0": "0",
    "violation_ns.1": "0",
    "event_types_supported": "0x1f",
    "pcie_generation": "5",
    "pcie_generation_max": "5",
    "pcie_generation_gpu_max": "5",
    "pcie_width": "16",
    "pcie_width_max": "16",
    "pcie_replay": "0",
    "pcie_throughput_kbs.0": "0",
    "pcie_throughput_kbs.1": "0",
    "utilization_gpu": "0",
    "utilization_memory": "0",
    "ecc_mode": "1",
    "ecc.volatile.corrected": "0",
    "ecc.volatile.uncorrected": "0",
    "ecc.aggregate.corrected": "3",
    "ecc.aggregate.uncorrected": "0",
    "ecc.volatile.corrected.2": "0",
    "ecc.volatile.uncorrected.2": "0",
    "ecc.volatile.corrected.7": "0",
    "ecc.volatile.uncorrected.7": "0",
    "ecc.aggregate.corrected.2": "3",
    "ecc.aggregate.uncorrected.2": "0",
    "ecc.aggregate.corrected.7": "0",
    "ecc.aggregate.uncorrected.7": "0",
    "sram_ecc.threshold_exceeded": "0",
    "remap_corrected": "0",
    "remap_uncorrected": "0",
    "remap_pending": "0",
    "remap_failure": "0",
    "remap_banks.max": "640",
    "retired_pages_pending": "N/A",  # pre-Ampere only
    "repair_pending.channel": "0",
    "unrepairable_memory": "0",
    "mig": "0",
    "nvlink_count": "18",
    "nvlink_version": "4",
    "fabric_state": "3",
    "fabric_status": "0",
    "field.82": "42",  # memory temperature
    "field.91": "18",  # NVLink count
    "field.230": "0",  # recovery action
}
MIG_DEFAULTS = {
    "name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
    "memory_total": str(10 * GIB - 512 * (1 << 20)),
    "memory_used": str(12 * (1 << 20)),
}


def render(machine: Machine) -> dict[str, bytes]:
    """Path below the node's folder → content."""
    files = {}
    if machine.driver_loaded:
        files["proc/driver/nvidia/version"] = _driver_version(machine).encode()
        for gpu in machine.gpus:
            if gpu.present:
                files[f"proc/driver/nvidia/gpus/{gpu.address}/information"] = _information(gpu).encode()
    files[STATE_FILE] = _state(machine).encode()
    return files


def _state(machine: Machine) -> str:
    seen = [gpu for gpu in machine.gpus if gpu.present]
    system = {
        "driver_version": machine.driver_version,
        "nvml_version": f"12.{machine.library_version}",
        "cuda_version": "12040",
        "count": str(len(seen)),
    }
    if not machine.driver_loaded:
        system["ret.nvmlInitWithFlags"] = "9"
    sections = [("system", {**system, **machine.nvml}), ("gpu", DEFAULTS), ("mig", MIG_DEFAULTS)]
    for number, gpu in enumerate(seen):  # the driver counts what it sees; the minor number stays
        sections.append((f"gpu{number}", _overrides(gpu)))
        for position, uuid in enumerate(gpu.mig):
            sections.append((f"gpu{number}.mig{position}", _mig_device(position, uuid)))
    lines = []
    for name, values in sections:
        lines += [f"[{name}]", *(f"{key}={value}" for key, value in values.items()), ""]
    return "\n".join(lines)


def _overrides(gpu: Gpu) -> dict[str, str]:
    values = {
        "uuid": gpu.uuid,
        "serial": gpu.serial,
        "bus_id": f"00000000:{gpu.bus:02X}:00.0",
        "minor_number": str(gpu.index),
        "module_id": str(gpu.index + 1),
        "board_id": hex(gpu.bus << 8),
        "numa_node": str(gpu.index // 4),
    }
    if gpu.link_width != 16:
        values["pcie_width"] = str(gpu.link_width)
    if gpu.mig:
        values |= {"mig": "1", "mig_count": str(len(gpu.mig))}
    return {**values, **gpu.nvml}


def _mig_device(position: int, uuid: str) -> dict[str, str]:
    return {"uuid": uuid, "gpu_instance_id": str(position + 7), "compute_instance_id": "0"}


def _driver_version(machine: Machine) -> str:
    return (
        f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {machine.driver_version}  "
        "Tue Oct  8 02:52:25 UTC 2024\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"
    )


def _information(gpu: Gpu) -> str:
    return (
        "Model: \t\t NVIDIA H100 80GB HBM3\n"
        f"IRQ:   \t\t {130 + gpu.index}\n"
        f"GPU UUID: \t {gpu.uuid}\n"
        "Bus Type: \t PCIe\n"
        f"Bus Location: \t {gpu.address}\n"
        f"Device Minor: \t {gpu.index}\n"
        "GPU Excluded:\t No\n"
    )
