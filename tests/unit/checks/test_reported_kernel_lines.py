"""Kernel lines as the field has reported them: whom they blame, what is an echo, what is not proof."""

from __future__ import annotations

import re

import pytest

from slurm_guard.checks import kernel_log
from slurm_guard.core.expectation import Expectation
from slurm_guard.core.outcome import Facts, Finding
from slurm_guard.probes import kmsg


def judge(*texts: str) -> list[Finding]:
    """The findings on a log of these lines, each parsed as a record of /dev/kmsg."""
    records = [kmsg.parse(f"3,{n},{5_000_000 + n},-;{text}".encode()) for n, text in enumerate(texts)]
    events = [Facts(record.as_dict()) for record in records if record]
    facts = Facts(first=0, last=len(events), gap=False, overflow=False, events=events)
    found = list(kernel_log.KernelLog().findings(facts, Facts(), Expectation()))
    return [one for one in found if one.status not in ("pass", "skip")]


def one(*texts: str) -> tuple[str, str, str, str, str]:
    """Fault, device, status, tier and blame of the only finding."""
    (found,) = judge(*texts)
    return (
        found.fault.partition(".")[2],
        found.device or "",
        found.status,
        found.tier or "",
        found.blame or "",
    )


UE = "EDAC MC{}: 1 UE memory read error on {} (channel:0 slot:1 page:0xd00d offset:0x0 grain:32)"


@pytest.mark.parametrize(
    ("line", "dimm"),
    [
        (UE.format(0, "CPU_SrcID#0_MC#0_Chan#0_DIMM#1"), "CPU_SrcID#0_MC#0_Chan#0_DIMM#1"),
        (UE.format(7, "CPU_SrcID#1_MC#3_Chan#1_DIMM#0"), "CPU_SrcID#1_MC#3_Chan#1_DIMM#0"),
        (UE.replace("memory read error", "memory scrubbing error").format(3, "DIMM_P1_C0"), "DIMM_P1_C0"),
        (
            "EDAC MC4: 2 UE Cannot decode normalized address on mc#4csrow#2channel#5 (csrow:2 channel:5)",
            "mc#4csrow#2channel#5",
        ),
    ],
)
def test_an_uncorrectable_memory_error_names_its_module(line: str, dimm: str) -> None:
    assert one(line) == ("memory_ue", dimm, "fail", "DRAIN_RMA", "node")


def test_a_corrected_memory_error_is_a_note() -> None:
    assert one(UE.format(0, "CPU_SrcID#0_MC#0_Chan#0_DIMM#1").replace(" UE ", " CE "))[2:4] == (
        "warn",
        "NOTE",
    )


def test_of_a_memory_error_and_an_ssds_the_memory_error_is_the_stronger_and_the_first() -> None:
    found = judge(
        UE.format(1, "CPU_SrcID#0_MC#1_Chan#0_DIMM#0"),
        "{4}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 512",
        "{4}[Hardware Error]: event severity: recoverable",
        "{4}[Hardware Error]:  Error 0, type: recoverable",
        "{4}[Hardware Error]:   section_type: PCIe error",
        "{4}[Hardware Error]:   device_id: 0000:c2:00.0",
    )
    assert [(one.fault, one.device, one.tier) for one in found] == [
        ("kernel_log.memory_ue", "CPU_SrcID#0_MC#1_Chan#0_DIMM#0", "DRAIN_RMA"),
        ("kernel_log.pcie_error", "0000:c2:00.0", "WARN"),
    ]


@pytest.mark.parametrize(
    ("severity", "codes"),
    [
        ("fatal", ["hardware_error", "pcie_error"]),
        ("recoverable", ["pcie_error"]),
        ("corrected", []),
        ("info", []),
    ],
)
def test_the_firmwares_word_decides_about_the_device_that_it_names(severity: str, codes: list[str]) -> None:
    found = judge(
        f"{{7}}[Hardware Error]: event severity: {severity}",
        "{7}[Hardware Error]:   device_id: 0000:2c:00.0",
    )
    assert [one.fault for one in found] == [f"kernel_log.{code}" for code in codes]


@pytest.mark.parametrize("prefix", ["", "AER: "])
@pytest.mark.parametrize(("word", "code"), [("Fatal", "pcie_fatal"), ("Non-Fatal", "pcie_error")])
def test_kernels_with_and_without_a_prefix_for_pcie_errors(prefix: str, word: str, code: str) -> None:
    line = (
        f"pcieport 0000:b7:02.0: {prefix}PCIe Bus Error: severity=Uncorrected ({word}), type=Data Link Layer"
    )
    assert one(line)[:2] == (code, "0000:b7:02.0")


STACKS = {
    "hung_task_storage": [
        " ? rpc_wait_bit_killable+0x1e/0xb0 [sunrpc]",
        " [<ffffffffc0881133>] ? nfs4_file_open+0x1a/0x2c0 [nfsv4]",
        " ptlrpc_set_wait+0x4d1/0x730 [ptlrpc]",
        " ll_file_io_generic+0x3a0/0x6f0 [lustre]",
        " request_wait_answer+0x133/0x210 [fuse]",
        " fuse_flush_time_update+0x3/0x10",
        " nfs4_run_open_task+0x13a/0x1d0 [nfsv4 0e5cbc0f6f1d1b0a]",
        " wekafs_wait+0x13a/0x1d0 [wekafsgw]",
        " ceph_mdsc_do_request+0x9f/0x240 [ceph]",
        " cxiWaitEventWait+0x1e2/0x3f0 [mmfslinux]",
        " ? cifs_readpage_worker+0x1c/0x110 [cifs]",
    ],
    "hung_task_gpu": [" os_acquire_mutex+0x3c/0x60 [nvidia]", " uvm_ioctl+0x1a/0x90 [nvidia_uvm]"],
    "hung_task": [" io_schedule+0x46/0x80", " jbd2_log_wait_commit+0xb3/0x120 [jbd2]", " my_nfs_test_app"],
}


@pytest.mark.parametrize(
    ("code", "frame"), [(code, frame) for code, frames in STACKS.items() for frame in frames]
)
def test_a_blocked_task_blames_what_its_stack_waits_for(code: str, frame: str) -> None:
    found = one(
        "INFO: task lmp_gpu:71404 blocked for more than 245 seconds.",
        "      Tainted: P           OE     6.4.0-hpc #1",
        "task:lmp_gpu         state:D stack:    0 pid:71404 ppid: 71390 flags:0x00000004",
        "Call Trace:",
        frame,
    )
    tier = {"hung_task_storage": "DRAIN", "hung_task_gpu": "DRAIN_REBOOT", "hung_task": "WARN"}[code]
    blame = {"hung_task_storage": "storage", "hung_task_gpu": "node", "hung_task": "unknown"}[code]
    assert (found[0], found[3], found[4]) == (code, tier, blame)


def test_newer_kernels_say_what_kind_of_wait_it_is() -> None:
    found = judge(
        "INFO: task tar:91 blocked in I/O wait for more than 122 seconds.",
        " io_schedule+0x46/0x80",
        "INFO: task cp:92 blocked in I/O wait for more than 122 seconds.",
        " nfs_wait_bit_killable+0x1e/0xa0 [nfs]",
    )
    assert {one.fault for one in found} == {"kernel_log.hung_task", "kernel_log.hung_task_storage"}


def test_each_blocked_task_has_a_stack_of_its_own() -> None:
    found = judge(
        "INFO: task dd:91 blocked for more than 122 seconds.",
        " io_schedule+0x46/0x80",
        "INFO: task cp:92 blocked for more than 122 seconds.",
        " nfs_wait_bit_killable+0x1e/0xa0 [nfs]",
    )
    assert {one.fault for one in found} == {"kernel_log.hung_task", "kernel_log.hung_task_storage"}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (
            "Out of memory: Killed process 5512 (python3) total-vm:310554kB, anon-rss:90kB, UID:4103",
            "oom_node",
        ),
        ("Memory cgroup out of memory: Killed process 5512 (python3) total-vm:310554kB, anon-rss:9kB", "oom"),
    ],
)
def test_a_nodes_memory_and_a_jobs_limit_are_told_apart(line: str, code: str) -> None:
    assert one(line) == (code, "", "fail", "JOB", "job")


@pytest.mark.parametrize(
    "line",
    [
        "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        "oom_reaper: reaped process 5512 (python3), now anon-rss:0kB",
        "systemd[1]: slurmstepd.scope: A process of this unit has been killed by the OOM killer.",
        "slurmstepd[31]: error: Detected 1 oom_kill event in StepId=88.0. Killed process 5512",
        "app: Out of memory: Killed process 7",
    ],
)
def test_no_memory_kill_without_the_kernels_own_proof(line: str) -> None:
    assert judge(line) == []


@pytest.mark.parametrize(
    ("text", "code", "tier"),
    [
        (
            "mlx5_pcie_event:304:(pid 11): Detected insufficient power on the PCIe slot (27W).",
            "nic_power",
            "WARN",
        ),
        ("Port module event[error]: module 0, Cable error, High Temperature", "nic_hot", "WARN"),
        ("Port module event: module 1, Cable unplugged", "nic_cable", "WARN"),
        (
            "63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at 0000:15:01.0",
            "nic_pcie",
            "WARN",
        ),
        ("poll_health:817:(pid 0): device's health compromised - reached miss count", "mlx5_fatal", "DRAIN"),
        (
            "wait_func:1186:(pid 2): ALLOC_UAR(0x802) timeout. Will cause a leak of a command resource",
            "mlx5_fatal",
            "DRAIN",
        ),
        (
            "mlx5_cmd_out_err:803:(pid 1): ACCESS_REG(0x805) op_mod(0x1) failed, status bad",
            "nic_command",
            "NOTE",
        ),
    ],
)
def test_what_an_adapter_says_of_itself(text: str, code: str, tier: str) -> None:
    found = one(f"mlx5_core 0000:D5:00.1: {text}")
    assert (found[0], found[1], found[3]) == (code, "0000:d5:00.1", tier)


@pytest.mark.parametrize(
    ("line", "code", "device"),
    [
        (
            "LustreError: 167-0: scr-OST0007-osc-ffff8a: This client was evicted by scr-OST0007; in",
            "lustre_evicted",
            "scr-OST0007",
        ),
        (
            "LustreError: 11-0: work-MDT0000: This client was evicted by work-MDT0000",
            "lustre_evicted",
            "work-MDT0000",
        ),
        (
            "Lustre: scr-OST0003-osc-ff8a: Connection to scr-OST0003 (at 10.9.0.3@o2ib) was lost; in",
            "lustre_lost",
            "scr-OST0003",
        ),
        ("nfs: server fs07.hpc not responding, still trying", "nfs_timeout", "fs07.hpc"),
        ("nfs: server 10.4.4.7 not responding, timed out", "nfs_timeout", "10.4.4.7"),
    ],
)
def test_a_silent_file_server_is_a_shared_cause(line: str, code: str, device: str) -> None:
    (found,) = judge(line)
    assert (found.fault, found.device) == (f"kernel_log.{code}", device)
    assert (found.scope, found.blame, found.tier) == ("shared", "storage", "WARN")


@pytest.mark.parametrize(
    "lines",
    [
        ("nfs: server fs07.hpc not responding, still trying", "nfs: server fs07.hpc OK"),
        (
            "Lustre: scr-OST0003-osc-ffff8a: Connection to scr-OST0003 (at 10.9.0.3@o2ib) was lost",
            "Lustre: scr-OST0003-osc-ffff8a: Connection restored to 10.9.0.3@o2ib (at 10.9.0.3@o2ib)",
        ),
    ],
)
def test_a_server_that_is_back_is_no_finding(lines: tuple[str, str]) -> None:
    assert judge(*lines) == []
    assert len(judge(*reversed(lines))) == 1


@pytest.mark.parametrize(
    "line",
    [
        "EXT4-fs (nvme1n1p2): mounted filesystem with ordered data mode. Opts: errors=remount-ro",
        "slurmctld: error: Nodes cq[2-4] not responding",
        "NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus.",
        "INFO: task hung_detector: nothing was blocked for more than a second",
        "EDAC MC0: Giving out device to module skx_edac controller Skylake Socket#0 IMC#0",
        "pcieport 0000:a0:01.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
        "libra01: I/O error rate is fine",
    ],
)
def test_lines_that_only_look_like_faults(line: str) -> None:
    assert judge(line) == []


def test_every_message_keeps_the_kernels_words() -> None:
    (found,) = judge("nvme nvme3: Disabling device after reset failure: -19")
    assert re.search("nvme3: Disabling device after reset failure", found.message)
    assert (found.device, found.tier) == ("nvme3", "DRAIN")
