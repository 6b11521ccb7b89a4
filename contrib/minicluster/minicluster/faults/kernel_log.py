"""kernel_log.KIND: what the kernel says about memory, processors, disks, adapters and file servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minicluster.faults.registry import Fault, Lines, Values, register
from minicluster.machine.kmsg import ALERT, CRITICAL, EMERGENCY, ERROR, INFO, WARNING, Line

if TYPE_CHECKING:
    from minicluster.machine.model import Machine

# A new process, disk or address for each call: `--set pid=...`.
SETTINGS = {
    "pid": "20417",
    "name": "python3",
    "disk": "nvme0n1",
    "address": "0000:17:00.0",
    "server": "nfs1.cluster",
}
# Kind: priority, and the lines in which {settings} are filled in.
TEXTS: dict[str, tuple[int, tuple[str, ...]]] = {
    "oom": (
        ERROR,
        (
            "{name} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
            "Memory cgroup out of memory: Killed process {pid} ({name}) total-vm:180224512kB, UID:1000",
        ),
    ),
    "oom_node": (
        ERROR,
        ("Out of memory: Killed process {pid} ({name}) total-vm:910224512kB, anon-rss:909306112kB",),
    ),
    "nccl_segfault": (
        INFO,
        ("{name}[{pid}]: segfault at 7f21dc000000 ip 00007f22a6c71a44 sp 00007f223 error 4 in libnccl.so.2",),
    ),
    "memory_ue": (
        EMERGENCY,
        ("EDAC MC1: 1 UE memory read error on CPU_SrcID#1_MC#1_Chan#0_DIMM#0 (channel:0 slot:0)",),
    ),
    "memory_ce": (
        WARNING,
        ("EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0)",),
    ),
    "memory_failure": (ERROR, ("Memory failure: 0x1d4a220: recovery action for dirty LRU page: Recovered",)),
    "mce": (
        EMERGENCY,
        (
            "mce: [Hardware Error]: Machine check events logged",
            "mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: be00000000800400",
        ),
    ),
    "hardware_error": (EMERGENCY, ("{{1}}[Hardware Error]: event severity: fatal",)),
    "pcie_fatal": (
        ERROR,
        ("pcieport {address}: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer",),
    ),
    "pcie_error": (
        ERROR,
        ("pcieport {address}: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Data Link Layer",),
    ),
    "thermal": (
        CRITICAL,
        ("CPU9: Package temperature above threshold, cpu clock throttled (total events = 214)",),
    ),
    "hung_task": (
        ERROR,
        (
            "INFO: task {name}:{pid} blocked for more than 120 seconds.",
            "      Tainted: P           OE      6.1.0-29-amd64 #1 Debian 6.1.123-1",
        ),
    ),
    "hung_task_storage": (
        ERROR,
        (
            "INFO: task {name}:{pid} blocked for more than 120 seconds.",
            "Call Trace:",
            " __schedule+0x34d/0x9e0",
            " rpc_wait_bit_killable+0x11/0x60 [sunrpc]",
            " nfs_wait_on_request+0x32/0x40 [nfs]",
        ),
    ),
    "hung_task_gpu": (
        ERROR,
        (
            "INFO: task {name}:{pid} blocked for more than 120 seconds.",
            "Call Trace:",
            " __schedule+0x34d/0x9e0",
            " os_acquire_mutex+0x3a/0x50 [nvidia]",
        ),
    ),
    "soft_lockup": (EMERGENCY, ("watchdog: BUG: soft lockup - CPU#31 stuck for 26s! [{name}:{pid}]",)),
    "hard_lockup": (EMERGENCY, ("NMI watchdog: Watchdog detected hard LOCKUP on cpu 17",)),
    "rcu_stall": (ERROR, ("rcu: INFO: rcu_preempt self-detected stall on CPU",)),
    "oops": (ALERT, ("BUG: kernel NULL pointer dereference, address: 0000000000000048",)),
    "io_error": (
        ERROR,
        (
            "I/O error, dev {disk}, sector 814231552 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 2",
            "Buffer I/O error on dev {disk}p1, logical block 101778944, async page read",
        ),
    ),
    "fs_error": (
        CRITICAL,
        ("EXT4-fs error (device {disk}p2): ext4_find_entry:1455: comm {name}: reading directory",),
    ),
    "remount_ro": (CRITICAL, ("EXT4-fs ({disk}p2): Remounting filesystem read-only",)),
    "fs_shutdown": (
        ALERT,
        ("XFS ({disk}p1): Metadata I/O Error (0x4) detected.  Shutting down filesystem.",),
    ),
    "nvme_reset": (WARNING, ("nvme {disk}: Disabling device after reset failure: -19",)),
    "nvme_timeout": (WARNING, ("nvme {disk}: I/O 214 QID 3 timeout, aborting",)),
    "raid_disk": (ALERT, ("md/raid1:md0: Disk failure on {disk}p2, disabling device.",)),
    "nfs_timeout": (WARNING, ("nfs: server {server} not responding, still trying",)),
    "lustre_evicted": (
        ERROR,
        ("LustreError: 167-0: scratch-OST0004-osc-ffff8f21: This client was evicted by scratch-OST0004",),
    ),
    "lustre_lost": (
        ERROR,
        ("Lustre: scratch-OST0004-osc: Connection to scratch-OST0004 (at 10.12.0.4@o2ib) was lost",),
    ),
    "ceph_lost": (WARNING, ("ceph: mds0 hung",)),
    "cifs_timeout": (WARNING, ("CIFS: VFS: \\\\{server} has not responded in 180 seconds. Reconnecting...",)),
    "mlx5_fatal": (
        ERROR,
        ("mlx5_core {address}: poll_health:842:(pid 0): device's health compromised - reached miss count",),
    ),
    "nic_power": (
        WARNING,
        ("mlx5_core {address}: mlx5_pcie_event:301: Detected insufficient power on the PCIe slot (25W).",),
    ),
    "nic_hot": (
        ERROR,
        ("mlx5_core {address}: Port module event[error]: module 0, High Temperature",),
    ),
    "nic_cable": (ERROR, ("mlx5_core {address}: Port module event: module 0, Cable unplugged",)),
    "nic_pcie": (
        WARNING,
        ("mlx5_core {address}: 126.024 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x8 link",),
    ),
    "nic_command": (
        ERROR,
        ("mlx5_core {address}: mlx5_cmd_out_err:808: ACCESS_REG(0x805) op_mod(0x1) failed",),
    ),
    "nic_stuck": (WARNING, ("NETDEV WATCHDOG: ib0 (mlx5_core): transmit queue 3 timed out",)),
}


def _lines(kind: str) -> Lines:
    def lines(machine: Machine, device: str, values: Values) -> list[Line]:
        priority, texts = TEXTS[kind]
        return [Line(text.format(**values), priority) for text in texts]

    return lines


def _any_line(machine: Machine, device: str, values: Values) -> list[Line]:
    return [Line(values["text"], int(values["priority"]))]


for kind, (_, texts) in TEXTS.items():
    used = {key: value for key, value in SETTINGS.items() if any(f"{{{key}}}" in text for text in texts)}
    shown = texts[0].format(**SETTINGS)
    register(Fault(f"kernel_log.{kind}", "", f"line: {shown[:60]}...", used, lines=_lines(kind)))
register(
    Fault(
        "kernel_log.line",
        "",
        "any line of the kernel",
        {"text": "usb 1-1: new device found", "priority": "6"},
        lines=_any_line,
    )
)
