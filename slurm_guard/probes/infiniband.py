"""Ports of RDMA adapters, from /sys/class/infiniband; see Documentation/ABI/stable/sysfs-class-infiniband."""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.outcome import Facts
    from slurm_guard.core.paths import Places

GROUP = "text"
FOLDER = "sys/class/infiniband"

#: Reading one of these may cost a query to the adapter's firmware, so only those that somebody uses.
COUNTERS = (
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "port_xmit_discards",
    "port_xmit_wait",
)
HW_COUNTERS = (
    "local_ack_timeout_err",
    "out_of_sequence",
    "packet_seq_err",
    "req_transport_retries_exceeded",
    "rnr_nak_retry_err",
)

_LARGEST = 4096
#: What a file reads as that is missing, answers with an error or is not supported: nothing to misunderstand.
_NONE = ("", "N/A")
_ALL_ONES = (2**32 - 1, 2**64 - 1)
_STATE = re.compile(r"\d{1,2}: ?([A-Za-z_ ]{2,40})")
_RATE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) ?Gb/sec\b")
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def read(places: Places, request: Facts) -> list[dict[str, Any]]:
    """One entry per port, sorted by name; an empty list where no adapter is there.

    `name` (`mlx5_0/1`), `device`, `port`, `state` (`ACTIVE`), `phys_state` (`LinkUp`), `rate` (Gb/s),
    `rate_text`, `link_layer` (`InfiniBand` or `Ethernet`), `virtual` (an SR-IOV function), `pci` (address or
    ""), `fw`, `counters` ({name: count, or None where it cannot be read or is not supported}), `garbled` (the
    counters that held anything but a count), `problem` (which other file held what cannot be understood).
    A state or rate that cannot be read is None.

    Raises OSError if the folder is there and cannot be listed.
    """
    folder = places.below(FOLDER)
    try:
        devices = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    return [port for device in devices for port in _ports(os.path.join(folder, device), device)]


def parse_state(text: str) -> str | None:
    """`4: ACTIVE` → `ACTIVE`; None for anything else."""
    match = _STATE.fullmatch(text.strip())
    return match[1].strip() if match else None


def parse_rate(text: str) -> float | None:
    """`400 Gb/sec (4X NDR)` → 400.0, `2.5 Gb/sec (1X SDR)` → 2.5; None for anything else."""
    match = _RATE.match(text.strip())
    return float(match[1]) if match else None


def parse_count(text: str) -> int | None:
    """A counter; None for what is none, and for all ones, as an adapter answers that is gone."""
    count = int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else None
    return None if count in _ALL_ONES else count


def _ports(folder: str, device: str) -> list[dict[str, Any]]:
    try:
        numbers = sorted(int(name) for name in os.listdir(os.path.join(folder, "ports")) if name.isdecimal())
    except (FileNotFoundError, NotADirectoryError):
        return []
    adapter = {
        "device": device,
        "virtual": os.path.lexists(os.path.join(folder, "device/physfn")),
        "pci": _address(folder),
        "fw": _text(folder, "fw_ver"),
    }
    return [_port(os.path.join(folder, "ports", str(number)), number, adapter) for number in numbers]


def _port(folder: str, number: int, adapter: dict[str, Any]) -> dict[str, Any]:
    texts = {name: _text(folder, name) for name in ("state", "phys_state", "rate")}
    port = {
        **adapter,
        "name": f"{adapter['device']}/{number}",
        "port": number,
        "state": parse_state(texts["state"]),
        "phys_state": parse_state(texts["phys_state"]),
        "rate": parse_rate(texts["rate"]),
        "rate_text": texts["rate"],
        "link_layer": _text(folder, "link_layer"),
        "counters": {},
        "garbled": [],
    }
    odd = [name for name, text in texts.items() if port[name] is None and text not in _NONE]
    port["problem"] = "; ".join(f"{name} is {texts[name][:40]!r}" for name in odd)
    if not port["virtual"]:
        counts = [("counters", name) for name in COUNTERS] + [("hw_counters", name) for name in HW_COUNTERS]
        texts = {name: _text(os.path.join(folder, group), name) for group, name in counts}
        port["counters"] = {name: parse_count(text) for name, text in texts.items()}
        port["garbled"] = [
            name for name, text in texts.items() if parse_count(text) is None and text not in _NONE
        ]
    return port


def _address(folder: str) -> str:
    """The PCI address behind the adapter, or "" for a software device."""
    for line in _text(folder, "device/uevent").split("\n"):
        key, _, value = line.partition("=")
        if key == "PCI_SLOT_NAME":
            return value.lower()
    try:
        target = os.path.basename(os.readlink(os.path.join(folder, "device"))).lower()
    except OSError:
        return ""
    return target if _ADDRESS.fullmatch(target) else ""


def _text(folder: str, name: str) -> str:
    """The text of a small file, without its last newline; "" where it is missing or answers with an error."""
    try:
        descriptor = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        return os.read(descriptor, _LARGEST).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    finally:
        os.close(descriptor)
