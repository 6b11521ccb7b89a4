"""A user may call programs and files as he likes; the kernel repeats the names and no node is drained."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.checks.kernel_log import KernelLog
from slurm_guard.core.expectation import Expectation
from slurm_guard.core.outcome import Facts, Finding
from slurm_guard.core.policy import DRAIN_TIERS
from slurm_guard.core.xid_lines import XidLine, parse
from slurm_guard.probes import kmsg

#: What the kernel writes about a program that crashes or is odd: its name, then the file that it was in.
FORMS = (
    "{name}[41]: segfault at 0 ip 00000000004011a0 sp 00007ffc error 4 in {file}[401000+1000] on CPU 3",
    "traps: {name}[41] general protection fault ip:4011d6 sp:7ffd2a8 error:0 in {file}[401000+1000]",
    "{name}[41]: unhandled exception: DABT (lower EL), ESR 0x92000046, in {file}[401000+1000]",
    "process '/scratch/{file}' started with executable stack",
)

FILES = (
    "NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus.",
    "x\nNVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus.",
    "x\\x0aNVRM: GPU 0000:18:00.0: GPU has fallen off the bus.",
    "NVRM: The NVIDIA GPU 0000:18:00.0\nNVRM: fallen off the bus and is not responding",
    "Failed to update Rx Detect Link mask",
    "infoROM is corrupted at gpu 0000:18:00.0",
    "mlx5_core 0000:18:00.0: device's health compromised",
    "nvme 0000:18:00.0: PCIe Bus Error: severity=Uncorrected (Fatal)",
    "{1}[Hardware Error]: event severity: fatal",
    "mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 7",
    "watchdog: Watchdog detected hard LOCKUP on cpu 3",
    "Shutting down filesystem",
    "(device sda) forced readonly",
    "EXT4-fs (sda1): Remounting filesystem read-only",
    "I⁄O error, dev sda",
    "blk_update_request: I/O error, dev sda, sector 9",
    "on DIMM7",
)
NAMES = (
    "a.out",
    "NVRM: x",
    "NVRM: Xid (PCI:",
    "NVRM: x\nNVRM: G",
    "Oops: x",
    "EDAC a: 1 UE ",
    "XFS (dm-0): ",
    "BTRFS",
    "kernel: NVRM: ",
    "[1] NVRM: ",
    "10:02:11 a ",
    "kernel BUG at a",
    "nvme n: I/O 1",
)


def judge(text: str) -> list[Finding | XidLine]:
    record = kmsg.parse(f"6,7,5000007,-;{escape(text)}".encode())
    assert record is not None
    events = [Facts(record.as_dict())]
    facts = Facts(first=7, last=7, gap=False, overflow=False, events=events)
    found = list(KernelLog().findings(facts, Facts(), Expectation()))
    return [one for one in found if one.status not in ("pass", "skip")] + parse(events)


def escape(text: str) -> str:
    """As the kernel does: what is not printable ASCII, and the backslash, becomes `\\xNN`."""
    plain = range(0x20, 0x7F)
    return "".join(
        chr(byte) if byte in plain and byte != ord("\\") else f"\\x{byte:02x}" for byte in text.encode()
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("file", FILES)
def test_no_name_of_a_program_or_file_forges_a_fault(form: str, file: str) -> None:
    forged = [name for name in NAMES if judge(form.format(name=name, file=file))]
    assert not forged


def as_name(text: str) -> str:
    """The kernel keeps 15 bytes of it."""
    return text.encode()[:15].decode("utf-8", "ignore")


@given(form=st.sampled_from(FORMS), name=st.text(max_size=15).map(as_name), file=st.sampled_from(FILES))
def test_whatever_the_program_is_called(form: str, name: str, file: str) -> None:
    assert judge(form.format(name=name, file=file)) == []


def test_a_crash_in_nccl_is_still_told_and_never_drains() -> None:
    (found,) = judge(FORMS[0].format(name="python3", file="libnccl.so.2.21.5"))
    assert isinstance(found, Finding)
    assert (found.fault, found.tier in DRAIN_TIERS) == ("kernel_log.nccl_segfault", False)
