"""/proc and the machine's identity: memory, processors, boot id, serial number, processes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from minicluster.machine.model import CPUS

if TYPE_CHECKING:
    from minicluster.machine.model import Machine, Process


def render(machine: Machine) -> dict[str, bytes]:
    """Path below the node's folder → content. `proc/uptime` is the clock's business (clock.py)."""
    texts = {
        "proc/meminfo": _meminfo(machine.memory_kib),
        "proc/stat": _stat(machine),
        "proc/loadavg": "0.42 0.37 0.31 1/912 20443\n",
        "proc/version": "Linux version 6.1.0-29-amd64 (gcc-12 12.2.0) #1 SMP Debian 6.1.123-1\n",
        "proc/cpuinfo": "".join(_processor(number) for number in range(CPUS)),
        "proc/sys/kernel/random/boot_id": f"{machine.boot_id}\n",
        "proc/sys/kernel/hostname": f"{machine.node}\n",
        "proc/sys/kernel/osrelease": "6.1.0-29-amd64\n",
        "sys/class/dmi/id/product_name": "Simulated 8xH100\n",
        "sys/class/dmi/id/product_serial": f"{machine.serial}\n",
        "sys/class/dmi/id/product_uuid": f"{machine.machine_uuid}\n",
        "sys/class/dmi/id/sys_vendor": "minicluster\n",
        "etc/machine-id": hashlib.sha256(machine.machine_uuid.encode()).hexdigest()[:32] + "\n",
        "etc/hostname": f"{machine.node}\n",
    }
    for process in machine.processes:
        texts |= _process(process)
    return {path: text.encode() for path, text in texts.items()}


def _meminfo(total: int) -> str:
    values = {
        "MemTotal": total,
        "MemFree": total - 21_345_672,
        "MemAvailable": total - 14_220_816,
        "Buffers": 412_300,
        "Cached": 9_224_164,
        "SwapCached": 0,
        "Active": 6_112_944,
        "Inactive": 5_844_020,
        "SwapTotal": 0,
        "SwapFree": 0,
        "Dirty": 116,
        "Writeback": 0,
        "Shmem": 88_412,
        "Slab": 3_401_228,
        "CommitLimit": total // 2,
        "Committed_AS": 7_903_116,
    }
    lines = [f"{name + ':':<16}{value:>12} kB\n" for name, value in values.items()]
    return "".join(
        [*lines, "HugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\n"]
    )


def _stat(machine: Machine) -> str:
    processors = "".join(f"cpu{number} 4100 12 2900 811200 40 0 11 0 0 0\n" for number in range(CPUS))
    return (
        f"cpu  262400 768 185600 51916800 2560 0 704 0 0 0\n{processors}intr 90211422\nctxt 188420931\n"
        f"btime {int(machine.boot_time)}\nprocesses 41022\nprocs_running 1\nprocs_blocked 0\n"
    )


def _processor(number: int) -> str:
    socket = number // (CPUS // 2)
    return (
        f"processor\t: {number}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
        f"model name\t: Intel(R) Xeon(R) Platinum 8462Y+\ncpu MHz\t\t: 2800.000\nphysical id\t: {socket}\n"
        f"core id\t\t: {number % (CPUS // 2)}\ncpu cores\t: {CPUS // 2}\n\n"
    )


def _process(process: Process) -> dict[str, str]:
    folder = f"proc/{process.pid}"
    return {
        f"{folder}/comm": f"{process.name}\n",
        f"{folder}/cmdline": f"{process.name}\0",
        f"{folder}/stat": f"{process.pid} ({process.name}) S 1 {process.pid} {process.pid} 0 -1 4194560 "
        "220 0 0 0 31 12 0 0 20 0 1 0 41023 9400320 1100 18446744073709551615\n",
        f"{folder}/status": f"Name:\t{process.name}\nState:\tS (sleeping)\nPid:\t{process.pid}\nPPid:\t1\n"
        f"Uid:\t{process.uid}\t{process.uid}\t{process.uid}\t{process.uid}\n",
        f"{folder}/cgroup": "0::/user.slice\n",
    }
