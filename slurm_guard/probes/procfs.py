"""What /proc, /etc and DMI say about the host: memory, uptime, identity, load, NVIDIA's driver version."""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.outcome import Facts
    from slurm_guard.core.paths import Places

GROUP = "text"

_LARGEST = 64 << 10
_MEMINFO = re.compile(r"([A-Za-z][\w()]{1,40}):\s*(\d{1,18})(?: kB)?\s*")
#: `… UNIX x86_64 Kernel Module  535.129.03  Thu …`, also `… UNIX Open Kernel Module for x86_64  560.35.03 …`.
_DRIVER = re.compile(r"Kernel Module\b[^\d\n]*(?:x86_64|aarch64)?\s+(\d{2,4}(?:\.\d{1,4}){1,3})\b")
#: What vendors leave in the firmware where a serial number should be.
_NO_SERIAL = frozenset({"", "0", "none", "default string", "to be filled by o.e.m.", "not specified", "n/a"})


def read(places: Places, request: Facts) -> dict[str, Any]:
    """Facts about the host; whatever is missing or garbage is None.

    `meminfo` ({name: kB, or a count for HugePages_*}, empty if unreadable), `uptime_s`, `boot_id`,
    `machine` ({machine_id, serial, product}), `loadavg` (1, 5 and 15 minutes), `driver_version`.
    """

    def text(path: str) -> str:
        return _text(places.below(path))

    return {
        "meminfo": parse_meminfo(text("proc/meminfo")),
        "uptime_s": _first_number(text("proc/uptime")),
        "boot_id": text("proc/sys/kernel/random/boot_id").strip() or None,
        "machine": {
            "machine_id": text("etc/machine-id").strip() or None,
            "serial": _serial(text("sys/class/dmi/id/product_serial")),
            "product": text("sys/class/dmi/id/product_name").strip() or None,
        },
        "loadavg": parse_loadavg(text("proc/loadavg")),
        "driver_version": parse_driver_version(text("proc/driver/nvidia/version")),
    }


def parse_meminfo(text: str) -> dict[str, int]:
    """`MemTotal:  1056431100 kB` and so on → {name: number}; lines in any other form are left out."""
    matches = (_MEMINFO.fullmatch(line) for line in text.split("\n"))
    return {match[1]: int(match[2]) for match in matches if match}


def parse_loadavg(text: str) -> list[float] | None:
    """The three load averages, or None."""
    numbers = [_number(word) for word in text.split()[:3]]
    found = [number for number in numbers if number is not None]
    return found if len(found) == 3 else None


def parse_driver_version(text: str) -> str | None:
    """The version in /proc/driver/nvidia/version, or None."""
    match = _DRIVER.search(text)
    return match[1] if match else None


def _first_number(text: str) -> float | None:
    return _number(text.partition(" ")[0])


def _number(word: str) -> float | None:
    """A decimal number that is finite and not negative, or None."""
    return float(word) if re.fullmatch(r"\d{1,12}(?:\.\d{1,9})?", word.strip(), re.ASCII) else None


def _serial(text: str) -> str | None:
    serial = text.strip()
    return None if serial.lower() in _NO_SERIAL else serial


def _text(path: str) -> str:
    """A file in one read (/proc files change between reads); "" where it is missing or unreadable."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        return os.read(descriptor, _LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
