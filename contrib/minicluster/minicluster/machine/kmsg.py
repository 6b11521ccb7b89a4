"""The kernel log of a node: a regular file in the format of /dev/kmsg.

A record is `priority,sequence,microseconds since boot,flags;text`, with lines of a dictionary below it.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from minicluster.files import write_all, write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from minicluster.machine.model import Hca, Machine

EMERGENCY, ALERT, CRITICAL, ERROR, WARNING, NOTICE, INFO = 0, 1, 2, 3, 4, 5, 6
_RECORD = re.compile(rb"^\d+,(\d+),\d+,[^;]*;", re.MULTILINE)


@dataclass(frozen=True)
class Line:
    """One message of the kernel; `device` (such as `+pci:0000:17:00.0`) becomes the record's dictionary."""

    text: str
    priority: int = INFO
    device: str = ""


def boot_lines(machine: Machine) -> list[tuple[int, Line]]:
    """What a healthy boot says, each line with its microseconds since boot."""
    driver = f"NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {machine.driver_version}  Tue Oct  8 02:52:25"
    return [
        (0, Line("Linux version 6.1.0-29-amd64 (debian-kernel@lists.debian.org)", NOTICE)),
        (0, Line("Command line: BOOT_IMAGE=/boot/vmlinuz-6.1.0-29-amd64 root=/dev/nvme1n1p2 ro")),
        (412_006, Line(f"Memory: {machine.memory_kib}K/{machine.memory_kib + 34_095_104}K available")),
        (
            2_310_442,
            Line("EXT4-fs (nvme1n1p2): mounted filesystem with ordered data mode. Quota mode: none."),
        ),
        (8_101_377, Line(driver)),
        *((9_000_000 + hca.index * 120_000, _firmware_line(hca)) for hca in machine.hcas),
        (14_880_120, Line("Lustre: Mounted scratch-client")),
    ]


def _firmware_line(hca: Hca) -> Line:
    return Line(f"mlx5_core {hca.address}: firmware version: 28.41.1000", device=f"+pci:{hca.address}")


def start(path: Path, machine: Machine) -> None:
    """A new, nearly empty log, as after a boot."""
    records = [_record(number, usec, line) for number, (usec, line) in enumerate(boot_lines(machine))]
    write_atomically(path, b"".join(records))


def append(path: Path, boot_time: float, lines: Iterable[Line]) -> None:
    """Add messages with the next sequence numbers; whole records in one write, under a lock.

    Raises OSError on a full disk, with nothing added.
    """
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        _append(fd, max(0, int((time.time() - boot_time) * 1_000_000)), lines)
    finally:
        os.close(fd)


def _append(fd: int, usec: int, lines: Iterable[Line]) -> None:
    size, sequence = os.fstat(fd).st_size, _last_sequence(fd) + 1
    records = [_record(sequence + number, usec + number, line) for number, line in enumerate(lines)]
    try:
        write_all(fd, b"".join(records))
    except OSError:
        os.ftruncate(fd, size)  # half a record would swallow the next one
        raise


def _last_sequence(fd: int) -> int:
    size = os.fstat(fd).st_size
    numbers = _RECORD.findall(os.pread(fd, 1 << 16, max(0, size - (1 << 16))))
    return int(numbers[-1]) if numbers else -1


def _record(sequence: int, usec: int, line: Line) -> bytes:
    said = line.text.replace("\n", "\\x0a")  # as the kernel does, so that no text forges a record
    text = f"{line.priority},{sequence},{usec},-;{said}\n"
    if line.device:
        subsystem = line.device.lstrip("+").partition(":")[0]
        text += f" SUBSYSTEM={subsystem}\n DEVICE={line.device}\n"
    return text.encode()
