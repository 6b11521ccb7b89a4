"""Times as records carry them, and the identity of this machine and boot."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from slurm_guard.core.paths import Places


def iso(seconds: float | None = None) -> str:
    """A UTC time with milliseconds: `2026-01-31T12:00:00.123Z`."""
    now = time.time() if seconds is None else seconds
    millis = round(now * 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(millis // 1000)) + f".{millis % 1000:03d}Z"


def read_text(path: str, most: int = 4096) -> str:
    """A small kernel or system file, stripped; empty where it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(descriptor, most).decode("utf-8", "replace").strip("\0 \n\t")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def boot_id(places: Places) -> str:
    """The kernel's id of this boot; empty where it cannot be read."""
    return read_text(places.below("proc/sys/kernel/random/boot_id"))


def uptime_s(places: Places) -> float:
    """Seconds since boot; a large number where it cannot be read, so that no grace is given by mistake."""
    first = read_text(places.below("proc/uptime")).split(" ")[0]
    try:
        return float(first)
    except ValueError:
        return 1e9


def machine(places: Places) -> dict[str, str]:
    """What tells this machine from another that has the same node name."""
    found = {
        "boot_id": boot_id(places),
        "machine_id": read_text(places.below("etc/machine-id")),
        "serial": read_text(places.below("sys/class/dmi/id/product_serial")),
    }
    return {name: value for name, value in found.items() if value}
