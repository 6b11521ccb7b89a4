"""The PCI bus: /sys/bus/pci/devices, with the same addresses as NVML and InfiniBand use."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from minicluster.machine.model import SWITCH_BUSES

if TYPE_CHECKING:
    from minicluster.machine.model import Machine

FOLDER = "sys/bus/pci/devices"
NVIDIA, MELLANOX = 0x10DE, 0x15B3
GPU_CLASS, BRIDGE_CLASS, INFINIBAND_CLASS = 0x030200, 0x068000, 0x020700
SPEED = "32.0 GT/s PCIe"


def render(machine: Machine) -> dict[str, bytes]:
    """Path below the node's folder → content. A device that doesn't answer reads as ones."""
    files: dict[str, bytes] = {}
    for gpu in machine.gpus:
        if gpu.present:
            files |= _device(
                gpu.address, NVIDIA, 0x2330, GPU_CLASS, gpu.link_width, gpu.link_speed, gpu.answers
            )
    for hca in machine.hcas:
        if hca.present:
            files |= _device(hca.address, MELLANOX, 0x1021, INFINIBAND_CLASS, hca.link_width)
    for bus in SWITCH_BUSES:  # same vendor as the GPUs, but none
        files |= _device(f"0000:{bus:02x}:00.0", NVIDIA, 0x22A3, BRIDGE_CLASS, 2)
    return files


def _device(
    address: str, vendor: int, device: int, kind: int, width: int, speed: str = SPEED, answers: bool = True
) -> dict[str, bytes]:
    bus = int(address[5:7], 16)
    maximum = 2 if kind == BRIDGE_CLASS else 16
    texts = {
        "vendor": f"0x{vendor:04x}",  # read once at boot and cached by the kernel: they stay
        "device": f"0x{device:04x}",
        "class": f"0x{kind:06x}",
        "revision": "0xa1" if vendor == NVIDIA else "0x00",
        "numa_node": "0" if bus < 0x80 else "1",
        "max_link_width": str(maximum),
        "max_link_speed": SPEED,
        "current_link_width": str(width) if answers else "63",
        "current_link_speed": speed if answers else "Unknown",
    }
    files = {f"{FOLDER}/{address}/{name}": f"{text}\n".encode() for name, text in texts.items()}
    files[f"{FOLDER}/{address}/config"] = _config_space(vendor, device, kind) if answers else b"\xff" * 64
    return files


def _config_space(vendor: int, device: int, kind: int) -> bytes:
    header = struct.pack(
        "<HHHHBBBB", vendor, device, 0x0406, 0x0010, 0xA1, kind & 0xFF, kind >> 8 & 0xFF, kind >> 16
    )
    return header.ljust(64, b"\0")
