"""GPUs and network adapters on the PCI bus, from sysfs: the referee when other sources disagree."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.outcome import Facts
    from slurm_guard.core.paths import Places

GROUP = "text"
FOLDER = "sys/bus/pci/devices"

#: Vendor → leading digits of the PCI classes that matter here.
_WANTED = {
    "0x10de": ("0x03",),  # display and 3D controllers; NVSwitches are bridges (0x0680)
    "0x1002": ("0x03", "0x12"),  # AMD's accelerators are "processing accelerators"
    "0x15b3": ("0x0200", "0x0207"),  # Ethernet and InfiniBand
}
_CLASSES = tuple(sorted({prefix for prefixes in _WANTED.values() for prefix in prefixes}))
_LARGEST = 4096
_DEAD = b"\xff\xff\xff\xff"


def read(places: Places, request: Facts) -> list[dict[str, Any]]:
    """One entry per device, in the order of the addresses; an empty list where there is no PCI bus.

    `address` (`0000:1b:00.0`), `vendor`, `device`, `class` (hex texts), `link_width`, `link_width_max`
    (lanes, None if unreadable), `link_speed`, `link_speed_max` (texts like `32.0 GT/s PCIe`), `numa_node`,
    `config_dead` (the configuration space reads as ones: the device no longer answers).
    """
    folder = places.below(FOLDER)
    try:
        addresses = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    devices = (_device(os.path.join(folder, address), address.lower()) for address in addresses)
    return [device for device in devices if device]


def _device(folder: str, address: str) -> dict[str, Any] | None:
    """A device of a kind that matters, or None. The class is read first: one file for all the others."""
    kind = _text(folder, "class")
    if not kind.startswith(_CLASSES):
        return None
    vendor = _text(folder, "vendor")
    if not kind.startswith(_WANTED.get(vendor, ("none",))):
        return None
    return {
        "address": address,
        "vendor": vendor,
        "class": kind,
        "device": _text(folder, "device"),
        "link_width": _number(folder, "current_link_width"),
        "link_width_max": _number(folder, "max_link_width"),
        "link_speed": _text(folder, "current_link_speed"),
        "link_speed_max": _text(folder, "max_link_speed"),
        "numa_node": _number(folder, "numa_node"),
        "config_dead": _bytes(folder, "config")[:4] == _DEAD,
    }


def _bytes(folder: str, name: str) -> bytes:
    """A file's content, bounded; empty where it cannot be read (a device may vanish while we look)."""
    try:
        with open(os.path.join(folder, name), "rb", buffering=0) as file:
            return file.read(_LARGEST) or b""
    except OSError:
        return b""


def _text(folder: str, name: str) -> str:
    return _bytes(folder, name).decode("ascii", "replace").strip()


def _number(folder: str, name: str) -> int | None:
    """A whole number, or None where the file is missing or holds anything else."""
    text = _text(folder, name)
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None
