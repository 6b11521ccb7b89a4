"""What the kernel says about memory, processors, disks, adapters and file systems since the last look.

The NVIDIA driver's own lines are `gpu_xid`'s. Each fault and device is told once per run, with the
number of lines and the first of them.
"""

from __future__ import annotations

import re

from slurm_guard.core import cgroups
from slurm_guard.core.check import Check, Fault, failed, passed, skipped, unknown, warned
from slurm_guard.core.kernel_lines import is_of_a_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from slurm_guard.core.expectation import Expectation
    from slurm_guard.core.outcome import Facts, Finding

_BDF = r"(?P<dev>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
#: Disks that nodes depend on; floppies, optical drives and loop devices are not among them. Without the
#: partition's number, so that a disk and its partitions are one device.
_DISK = r"(?P<dev>nvme\d+n\d+|(?:s|v|h|xv)d[a-z]+|dm-\d+|md\d+|pmem\d+)"
_MLX5 = rf"mlx5_core {_BDF}: .*"

_BLOCKED = " for more than "
#: Between the kernel's line on a choice of victim and the one on its end.
_OOM_LINES = 3

#: Fault, a text that the line holds, and a pattern that it matches too; `dev` in it names the device. The
#: first row that fits counts. Patterns are compiled only once the text was found, which is nearly never.
ROWS = (
    ("oom", "Killed process ", r"^Memory cgroup out of memory: Killed process \d+"),
    ("oom_node", "Killed process ", r"^Out of memory: Killed process \d+"),
    ("memory_ue", " UE ", r"^EDAC \S+: \d+ UE .*? on (?P<dev>[\w#.-]+)"),
    ("memory_ce", " CE ", r"^EDAC \S+: \d+ CE .*? on (?P<dev>[\w#.-]+)"),
    ("memory_failure", "Memory failure: ", r"^Memory failure: 0x\w+: recovery action"),
    (
        "mce",
        "Machine Check Exception: ",
        r"\[Hardware Error\]: CPU \d+: Machine Check Exception: \w+ Bank \d+",
    ),
    ("hardware_error", "event severity: fatal", r"\[Hardware Error\]: event severity: fatal"),
    (
        "pcie_fatal",
        "severity=Uncorrect",
        rf"{_BDF}: (?:AER: )?PCIe Bus Error: severity=Uncorrect\w+ \(Fatal\)",
    ),
    (
        "pcie_error",
        "severity=Uncorrect",
        rf"{_BDF}: (?:AER: )?PCIe Bus Error: severity=Uncorrect\w+ \(Non-Fatal\)",
    ),
    ("pcie_error", "device_id: ", rf"\[Hardware Error\]:\s+device_id: {_BDF}"),
    ("thermal", " above threshold", r"CPU\d+: (?:Core|Package) temperature(?:/speed)? above threshold"),
    ("hung_task", _BLOCKED, rf"^INFO: task .{{1,40}}:\d+ blocked(?: in I/O wait)?{_BLOCKED}\d+ seconds"),
    ("soft_lockup", "soft lockup", r"BUG: soft lockup - CPU#\d+ stuck for"),
    ("hard_lockup", "hard LOCKUP", r"[Ww]atchdog.* hard LOCKUP on cpu"),
    ("rcu_stall", " stall", r"rcu.*(?:self-detected stall|detected (?:expedited )?stalls) on"),
    ("oops", "BUG: ", r"^BUG: (?:kernel NULL pointer dereference|unable to handle)"),
    ("oops", "kernel BUG at ", r"^kernel BUG at \S+:\d+"),
    ("oops", "Oops: ", r"^(?:Internal error: )?Oops: "),
    ("oops", "general protection fault", r"^general protection fault"),
    ("io_error", " error", rf"(?:I/O error|medium error)[^,]*(?:, dev|on dev(?:ice)?) {_DISK}"),
    ("io_error", "metadata I/O error", r"^XFS \((?P<dev>[\w-]+)\): metadata I/O error"),
    ("io_error", " superblock", r"^EXT4-fs \((?P<dev>[\w-]+)\): I/O error while writing superblock"),
    ("io_error", "to offline device", r"^sd (?P<dev>[\d:]+): .*rejecting I/O to offline device"),
    ("io_error", "no available path", rf"{_DISK}: no available path"),
    ("fs_error", "EXT4-fs error", r"^EXT4-fs error \(device (?P<dev>[\w-]+)\)"),
    ("remount_ro", "Remounting filesystem read-only", r"\((?:device )?(?P<dev>[\w-]+)[^)]*\):? Remounting"),
    ("remount_ro", "forced readonly", r"^BTRFS\b.*\(device (?P<dev>[\w-]+)[^)]*\).* forced readonly"),
    ("fs_shutdown", "hut", r"^XFS \((?P<dev>[\w-]+)\): .*(?:Shutting down filesystem|has been shut down)"),
    (
        "nvme_reset",
        "after reset failure",
        r"^nvme (?P<dev>\w+): (?:Disabling device|Removing) after reset failure",
    ),
    ("nvme_timeout", " timeout, ", r"^nvme (?P<dev>\w+): I/O (?:tag )?\d+.* timeout, "),
    ("raid_disk", "Disk failure on ", r"^md/\S+?:(?P<dev>md\w+): Disk failure on"),
    ("nfs_timeout", " not responding", r"^nfs: server (?P<dev>\S+) not responding"),
    ("cifs_timeout", "has not responded", r"^CIFS: .*\\\\(?P<dev>[\w.-]+) has not responded in"),
    ("lustre_evicted", "was evicted by", r"This client was evicted by (?P<dev>[\w-]+)"),
    ("lustre_lost", " was lost", r"Connection to (?P<dev>[\w-]+) \(at [^)]+\) was lost"),
    ("ceph_lost", "ceph: ", r"^ceph: (?:\[[^]]*\]: )?(?P<dev>mds\d+) (?:hung|caps stale|reconnect denied)"),
    ("mlx5_fatal", "health compromised", rf"{_MLX5}device's health compromised"),
    ("mlx5_fatal", "leak of a command resource", rf"{_MLX5}timeout\. Will cause a leak"),
    ("mlx5_fatal", "unrecoverable hardware error", rf"{_MLX5}unrecoverable hardware error"),
    ("nic_power", "insufficient power", rf"{_MLX5}Detected insufficient power on the PCIe slot"),
    ("nic_hot", "High Temperature", rf"{_MLX5}Port module event.*High Temperature"),
    ("nic_cable", "Cable unplugged", rf"{_MLX5}Port module event.*Cable unplugged"),
    ("nic_pcie", "available PCIe bandwidth", rf"{_MLX5}available PCIe bandwidth, limited by"),
    ("nic_command", "ACCESS_REG", rf"{_MLX5}ACCESS_REG\(\w+\).* failed"),
    ("nic_stuck", "NETDEV WATCHDOG", r"^NETDEV WATCHDOG: (?P<dev>[\w.-]+)"),
)
#: The only rows for lines about a user's program.
PROGRAM_ROWS = (("nccl_segfault", "segfault at", r"segfault at \w+ ip \w+ .* in libnccl"),)
#: Lines that take a fault back, if they come after it.
CURES = (
    ("nfs_timeout", " OK", r"^nfs: server (?P<dev>\S+) OK"),
    ("lustre_lost", "Connection restored", r"(?P<dev>[\w-]+?)-(?:osc|mdc|mgc|lwp)-\S+: Connection restored"),
)
#: What the stack of a blocked task tells: whom it waits for.
_STORAGE = (
    r"\b(?:nfs\d?_|rpc_|ptlrpc_|ll_|osc_|ldlm_|fuse_|ceph_|cifs_|request_wait_answer)\w*\+"
    r"|\[(?:nfs|nfsv\d|sunrpc|lockd|lustre|ptlrpc|obdclass|osc|lov|mdc|lmv|lnet|mmfs\w*|beegfs|ceph|libceph"
    r"|cifs|fuse|wekafs\w*)(?: [0-9a-f]+)?\]"  # newer kernels add the module's build id
)
_GPU = r"\[nvidia(?:_uvm|_modeset|_drm)?(?: [0-9a-f]+)?\]"
_STACK_LINES, _STACK_SECONDS = 60, 2.0
#: Severities of the firmware's records with which the device that they name is well.
_HARMLESS = ("corrected", "info")
_NOTHING = ("", "")
_LONGEST = 240

_DIMM = (
    "Replace the memory module that the line names; `ras-mc-ctl --errors` and the BMC's log name its slot."
)
_DISK_REMEDY = "See `smartctl -x` or `nvme smart-log`; replace the disk if errors come back."
_SERVER = "Look at the server and the network to it: other nodes will say the same."
_ADAPTER = "Power-cycle the node; if it comes back, update the adapter's firmware or open an RMA."


def _event(tier: str, text: str, remedy: str = "", **more: Any) -> Fault:
    """A line that stands for lasting damage: the fault stays until a reset or reboot."""
    return Fault(tier, text, remedy=remedy, event=True, **more)


def _shared(text: str, tier: str = "WARN") -> Fault:
    return Fault(tier, text, remedy=_SERVER, scope="shared", blame="storage")


class KernelLog(Check):
    """Rows above, faults below; a tier of NOTE warns, any other fails."""

    name = "kernel_log"
    probe = "kmsg"
    scope = "node"
    remedy = "See `dmesg -T` around that line."
    faults = {
        "oom": Fault(
            "JOB",
            "the kernel killed a process that reached its job's memory limit",
            blame="job",
            remedy="Ask for more memory.",
        ),
        "oom_node": Fault(
            "JOB",
            "the whole node ran out of memory and the kernel killed a process",
            blame="job",
            remedy="Ask for more memory; look whether jobs' memory is limited (ConstrainRAMSpace).",
        ),
        "nccl_segfault": Fault(
            "JOB", "a process crashed in NCCL", blame="job", remedy="Look for its peers' errors first."
        ),
        "memory_ue": _event("DRAIN_RMA", "uncorrectable memory error", _DIMM),
        "memory_ce": Fault("NOTE", "corrected memory error", remedy=_DIMM),
        "memory_failure": _event("DRAIN", "a page of memory was lost", _DIMM),
        "mce": _event(
            "DRAIN", "machine check", "Decode it with `rasdaemon` or `mcelog`; look at the BMC's log."
        ),
        "hardware_error": _event("DRAIN", "the firmware tells of a fatal hardware error"),
        "pcie_fatal": _event("DRAIN", "fatal PCIe error", "Reseat the device; look at its slot and riser."),
        "pcie_error": Fault("WARN", "PCIe error", remedy="Reseat the device if it comes back."),
        "thermal": Fault(
            "NOTE", "processors slowed down by heat", remedy="Look at fans and inlet temperature."
        ),
        "hung_task": Fault("WARN", "a task was blocked for long", blame="unknown"),
        "hung_task_storage": _shared("a task was blocked for long, waiting for storage", "DRAIN"),
        "hung_task_gpu": _event("DRAIN_REBOOT", "a task was blocked for long in the GPU's driver"),
        "soft_lockup": Fault("WARN", "a processor was stuck", blame="unknown"),
        "hard_lockup": _event("DRAIN_REBOOT", "a processor was stuck with interrupts off"),
        "rcu_stall": Fault("WARN", "a processor did not get on", blame="unknown"),
        "oops": _event(
            "DRAIN_REBOOT", "the kernel crashed in part", "Keep the trace for the kernel's vendor; reboot."
        ),
        "io_error": _event("DRAIN", "a disk answers with errors", _DISK_REMEDY),
        "fs_error": Fault("WARN", "a file system is damaged", remedy="Run fsck while it is not mounted."),
        "remount_ro": _event("DRAIN", "a file system went read-only after an error", _DISK_REMEDY),
        "fs_shutdown": _event("DRAIN", "a file system shut itself down after an error", _DISK_REMEDY),
        "nvme_reset": _event("DRAIN", "an NVMe disk did not come back from a reset", _DISK_REMEDY),
        "nvme_timeout": Fault("WARN", "an NVMe disk did not answer in time", remedy=_DISK_REMEDY),
        "raid_disk": Fault("WARN", "a RAID lost a disk", remedy=_DISK_REMEDY),
        "nfs_timeout": _shared("an NFS server does not answer"),
        "cifs_timeout": _shared("an SMB server does not answer"),
        "lustre_evicted": _shared("a Lustre server evicted this client"),
        "lustre_lost": _shared("the connection to a Lustre server was lost"),
        "ceph_lost": _shared("a Ceph metadata server does not answer"),
        "mlx5_fatal": _event("DRAIN", "a network adapter failed", _ADAPTER),
        "nic_power": Fault("WARN", "a network adapter's slot gives too little power", remedy=_ADAPTER),
        "nic_hot": Fault(
            "WARN", "a network adapter's cable or module is hot", remedy="Look at fans and the module."
        ),
        "nic_cable": Fault("WARN", "a cable was unplugged", remedy="Plug it in, or see `ib_link`."),
        "nic_pcie": Fault(
            "WARN", "a network adapter has less PCIe bandwidth than it could", remedy="Reseat it."
        ),
        "nic_command": Fault("NOTE", "a network adapter refused a query", remedy=_ADAPTER),
        "nic_stuck": Fault("WARN", "a network adapter's queue was stuck", remedy=_ADAPTER),
    }

    def judge(self, facts: Any, params: Any, expect: Expectation) -> Iterator[Finding]:
        """Coverage first: lines that nobody read cannot be called good."""
        if facts.gap:
            yield unknown("lines of the kernel log were lost before they were read, or cannot be read")
        if facts.overflow:
            yield unknown(f"more than the {len(facts.events)} lines that one run takes; the next takes more")
        if not facts.events and expect.run.get("first_run"):
            yield skipped("first run: what the log holds by now is history")
            return
        own = expect.run.get("job_id") if expect.run.get("hook") == "epilog" else None
        found = _group(facts.events, own)
        for (code, device), (count, first) in found.items():
            fault = self.fault(code)
            times = f" ({count} lines)" if count > 1 else ""
            make = warned if fault.tier == "NOTE" else failed
            yield make(f"{fault.text}{times}: {first}", code=code, device=device, value=count, unit="lines")
        if not found:
            yield passed()


def _group(events: list[Facts], own: int | None = None) -> dict[tuple[str, str], tuple[int, str]]:
    """Number of lines and the first of them, by fault and device, in the order of the log.

    `own`: the job whose epilog this is. Another job's lack of memory is told by that job's.
    """
    found: dict[tuple[str, str], tuple[int, str]] = {}
    severity = ""
    for number, event in enumerate(events):
        text = event.text
        if is_of_a_program(text):
            fault = _first(PROGRAM_ROWS, text)
        else:
            severity = text.rpartition(" ")[2] if "event severity: " in text else severity
            found.pop(_first(CURES, text) or _NOTHING, None)
            fault = None if text.startswith("NVRM: ") else _first(ROWS, text)
        if fault is None or (severity in _HARMLESS and "device_id: " in text):
            continue
        code, device = fault
        victim = _victim(events, number) if code == "oom" else None
        if victim and own and victim[0] != own:
            continue
        key = (_waits_for(events, number) if code == "hung_task" else code, device)
        whose = f"job {victim[0]}, step {victim[1] or '-'}: " if victim else ""
        count, first = found.get(key, (0, whose + _clean(text)))
        found[key] = (count + 1, first)
    return found


def _first(rows: tuple[tuple[str, str, str], ...], text: str) -> tuple[str, str] | None:
    for code, needle, pattern in rows:
        if needle in text:
            match = re.search(pattern, text)
            if match:
                device = match.groupdict().get("dev") or ""
                return code, device.lower() if ":" in device else device
    return None


def _victim(events: list[Facts], number: int) -> tuple[int, str] | None:
    """Job and step of a killed process: the line before names its cgroup."""
    for event in reversed(events[max(0, number - _OOM_LINES) : number]):
        found = re.search(r"^oom-kill:.*\btask_memcg=([^,\s]+)", event.text)
        if found:
            return cgroups.job_of(found[1])
    return None


def _waits_for(events: list[Facts], number: int) -> str:
    """Whom a blocked task waits for, from the stack that follows its line."""
    end = events[number].time_s + _STACK_SECONDS
    for event in events[number + 1 : number + 1 + _STACK_LINES]:
        if event.time_s > end or event.text.startswith("INFO: task "):
            break
        if re.search(_STORAGE, event.text):
            return "hung_task_storage"
        if re.search(_GPU, event.text):
            return "hung_task_gpu"
    return "hung_task"


def _clean(text: str) -> str:
    """One line that can be printed."""
    return "".join(char if char.isprintable() else " " for char in text)[:_LONGEST].strip()
