"""What kernel and drivers say: /dev/kmsg, Xid lines, /proc and /sys texts."""

from __future__ import annotations

from contextlib import suppress

from fuzz.targets import Target, require, scratch
from slurm_guard.core import kernel_lines, xid_lines
from slurm_guard.core.errors import ProbeError
from slurm_guard.core.outcome import Facts
from slurm_guard.probes import infiniband, kmsg, mounts, procfs


def kernel_log(data: bytes) -> None:
    """Records of the kernel's log, and the Xids in them."""
    here = scratch.places()
    scratch.put(here.below("dev/kmsg"), data)
    for since in (None, 0, 5):
        with suppress(ProbeError):
            found = kmsg.read(here, Facts(kmsg_since=since))
            _xids([Facts(one) for one in found["events"]])
            require(
                all(len(one["text"]) <= kmsg.LONGEST_TEXT for one in found["events"]), "a text without end"
            )
    for line in data.split(b"\n"):
        kmsg.parse(line)


def _xids(events: list[Facts]) -> None:
    for event in events:
        kernel_lines.is_of_a_program(event.text)
    for one in xid_lines.parse(events):
        require(isinstance(one.place(), str), "no place")


def xids(data: bytes) -> None:
    """The driver's messages, one a line (`\\r` for a line's end within one)."""
    texts = data.decode("utf-8", "replace").split("\n")
    _xids([Facts(text=text.replace("\r", "\n"), time_s=float(at)) for at, text in enumerate(texts)])


def proc_and_sys(data: bytes) -> None:
    """Lines of mountinfo and meminfo, files of an InfiniBand port."""
    text = data.decode("utf-8", "surrogateescape")
    table = [found for line in text.split("\n") if (found := mounts.parse(line)) is not None]
    mounts.find(table, "/scratch")
    mounts.unescape(text)
    with suppress(ValueError, ProbeError):
        procfs.parse_meminfo(text)
    infiniband.parse_state(text)
    infiniband.parse_rate(text)
    infiniband.parse_count(text)


XIDS = (
    b"NVRM: Xid (PCI:0000:1b:00): 79, pid=1234, name=python, GPU has fallen off the bus.\n"
    b"NVRM: GPU at PCI:0000:1b:00: GPU-12345678\nNVRM: Xid (PCI:0000:1b:00): 13, Graphics SM Warp Exception on (GPC 2, TPC 1)",
    b"nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32\n"
    b"NVRM: Xid (PCI:0000:1b:00): 145, RLW_SRC_TRACK Nonfatal XC0 i0 Link 03 (0x00000003 0x0)",
)
LOG = b"".join(
    b"4,%d,%d,-;%s\n SUBSYSTEM=pci\n" % (n, n * 1000, line.replace(b"\n", b"\\x0a"))
    for n, line in enumerate(XIDS, 1)
)
TARGETS = (
    Target("kernel_log", "/dev/kmsg", kernel_log, (LOG, b"12,7,5,-;said by a program\\x1b\n6,9,8,c;x\n")),
    Target("xids", "Xid and SXid messages", xids, XIDS),
    Target(
        "proc_and_sys",
        "mountinfo, meminfo, InfiniBand's files",
        proc_and_sys,
        (
            b"36 35 0:52 / /scratch rw,relatime shared:1 - lustre 10.0.0.1@o2ib:/s rw,flock\nMemTotal: 100 kB\n",
            b"4: ACTIVE",
            b"400 Gb/sec (4X NDR)",
        ),
    ),
)
