"""Faults of the host: memory missing, and what the kernel says about it and others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minicluster.faults.registry import Fault, Lines, Values, register
from minicluster.machine.kmsg import ALERT, CRITICAL, EMERGENCY, ERROR, WARNING, Line
from minicluster.machine.model import DIMM_KIB

if TYPE_CHECKING:
    from minicluster.machine.model import Machine

# Kind → summary, priority, lines. {name}, {pid}, ... are settings.
KERNEL_LOG = {
    "oom": ("the kernel's out-of-memory killer", ERROR, (
        "{name} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        "Out of memory: Killed process {pid} ({name}) total-vm:180224512kB, anon-rss:179306112kB, file-rss:0kB, "
        "shmem-rss:0kB, UID:1000 pgtables:352144kB oom_score_adj:0",
    )),
    "io_error": ("a disk does not read", ERROR, (
        "blk_update_request: I/O error, dev {disk}, sector 814231552 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 0",
        "Buffer I/O error on dev {disk}p1, logical block 101778944, async page read",
    )),
    "mce": ("a machine check", EMERGENCY, (
        "mce: [Hardware Error]: Machine check events logged",
        "mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: be00000000800400",
        "EDAC MC1: 1 UE memory read error on CPU_SrcID#1_MC#1_Chan#0_DIMM#0 (channel:0 slot:0 page:0x1d4a220)",
    )),
    "hung_task": ("a task blocked for more than 120 s", ERROR, (
        "INFO: task {name}:{pid} blocked for more than 120 seconds.",
        "      Tainted: P           OE      6.1.0-29-amd64 #1 Debian 6.1.123-1",
        "\"echo 0 > /proc/sys/kernel/hung_task_timeout_secs\" disables this message.",
    )),
    "remount_ro": ("a file system went read-only after an error", CRITICAL, (
        "EXT4-fs error (device {disk}p2): ext4_journal_check_start:83: comm systemd-journal: Detected aborted journal",
        "EXT4-fs ({disk}p2): Remounting filesystem read-only",
    )),
    "nvme_reset": ("an NVMe controller did not come back", WARNING, (
        "nvme {disk}: I/O 214 QID 3 timeout, aborting",
        "nvme {disk}: Disabling device after reset failure: -19",
    )),
    "soft_lockup": ("a processor was stuck", EMERGENCY, ("watchdog: BUG: soft lockup - CPU#31 stuck for 26s! [{name}:{pid}]",)),
    "nfs_timeout": ("an NFS server did not answer", WARNING, ("nfs: server nfs1.cluster not responding, still trying",)),
    "lustre_evicted": ("a Lustre server evicted the client", ERROR, (
        "LustreError: 167-0: scratch-OST0004-osc-ffff8f21c5a3e000: This client was evicted by scratch-OST0004; "
        "in progress operations using this service will fail.",
    )),
    "oops": ("a kernel oops", ALERT, ("BUG: kernel NULL pointer dereference, address: 0000000000000048",)),
    "thermal": ("processors slowed down by heat", CRITICAL, (
        "CPU9: Package temperature above threshold, cpu clock throttled (total events = 214)",
    )),
}
DEFAULTS = {"pid": "20417", "name": "python3", "disk": "nvme0n1"}


def memory_low(machine: Machine, device: str, values: Values) -> None:
    machine.memory_kib -= int(values["dimms"]) * DIMM_KIB


def _lines(kind: str) -> Lines:
    def lines(machine: Machine, device: str, values: Values) -> list[Line]:
        _, priority, texts = KERNEL_LOG[kind]
        return [Line(text.format(**values), priority) for text in texts]

    return lines


def any_line(machine: Machine, device: str, values: Values) -> list[Line]:
    return [Line(values["text"], int(values["priority"]))]


register(Fault("memory_size.low", "", "memory modules missing", {"dimms": "2"}, memory_low))
register(Fault("kernel_log.line", "", "any line of the kernel",
               {"text": "usb 1-1: new device found", "priority": "6"}, lines=any_line))
for kind, (summary, _, _) in KERNEL_LOG.items():
    register(Fault(f"kernel_log.{kind}", "", summary, DEFAULTS, lines=_lines(kind)))
