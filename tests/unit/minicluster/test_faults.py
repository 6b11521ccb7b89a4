"""Every fault changes the right bytes, and clearing it restores them."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from minicluster.errors import FaultError
from minicluster.faults import all_faults, find
from minicluster.machine.gpu import STATE_FILE
from minicluster.simulated import SimulatedMachine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

IB, PCI = "sys/class/infiniband", "sys/bus/pci/devices"
CLOCK = "proc/uptime"  # nobody's fault changes it
DEVICES = {"gpu": "gpu3", "port": "mlx5_2/1", "hca": "mlx5_2", "mount": "/local", "": None}
GPU3, HCA2 = "0000:5d:00.0", "0000:3a:00.0"


def tree(root: Path) -> dict[str, bytes | str]:
    """Every file of the machine (what lies on its mounts excepted)."""
    found: dict[str, bytes | str] = {}
    for folder, names, files in os.walk(root):
        here = Path(folder)
        names[:] = [
            name for name in names if here / name not in (root / "scratch", root / "home", root / "local")
        ]
        for name in files + [name for name in names if (here / name).is_symlink()]:
            path = here / name
            mode = path.lstat().st_mode
            key = str(path.relative_to(root))
            if stat.S_ISLNK(mode):
                found[key] = str(path.readlink())
            elif stat.S_ISREG(mode) and key != CLOCK:
                found[key] = path.read_bytes()
    return found


def changes(before: Mapping[str, bytes | str], after: Mapping[str, bytes | str]) -> set[str]:
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def text(machine: SimulatedMachine, path: str) -> str:
    return (machine.root / path).read_text().strip()


def log(machine: SimulatedMachine) -> list[str]:
    """The texts of the kernel log."""
    lines = (machine.root / "dev/kmsg").read_text().splitlines()
    return [line.partition(";")[2] for line in lines if not line.startswith(" ")]


def state(machine: SimulatedMachine, section: str) -> dict[str, str]:
    """A section of the NVML double's state."""
    sections = re.split(r"^\[(\S+)\]$", text(machine, STATE_FILE), flags=re.MULTILINE)
    body = dict(zip(sections[1::2], sections[2::2], strict=True))[section]
    return dict(line.partition("=")[::2] for line in body.splitlines() if line)


# Fault: what it changes besides the kernel log and the machine's own state, and a look at the bytes.
TABLE: list[tuple[str, set[str], Callable[[SimulatedMachine], Any], Any]] = [
    (
        "gpu_count.lost",
        {
            STATE_FILE,
            f"{PCI}/{GPU3}/config",
            f"{PCI}/{GPU3}/current_link_width",
            f"{PCI}/{GPU3}/current_link_speed",
        },
        lambda m: (state(m, "gpu3")["lost"], (m.root / f"{PCI}/{GPU3}/config").read_bytes()[:4]),
        ("1", b"\xff\xff\xff\xff"),
    ),
    ("gpu_count.reset_required", {STATE_FILE}, lambda m: state(m, "gpu3")["reset_required"], "1"),
    ("gpu_ecc.uncorrected", {STATE_FILE}, lambda m: state(m, "gpu3")["ecc.volatile.uncorrected.2"], "1"),
    ("gpu_ecc.corrected", {STATE_FILE}, lambda m: state(m, "gpu3")["ecc.volatile.corrected"], "60000000"),
    ("gpu_ecc.sram_threshold", {STATE_FILE}, lambda m: state(m, "gpu3")["sram_ecc.threshold_exceeded"], "1"),
    ("gpu_ecc.mode", {STATE_FILE}, lambda m: state(m, "gpu3")["ecc_mode"], "0"),
    ("gpu_remap.pending", {STATE_FILE}, lambda m: state(m, "gpu3")["remap_pending"], "1"),
    ("gpu_remap.failure", {STATE_FILE}, lambda m: state(m, "gpu3")["remap_failure"], "1"),
    (
        "gpu_pcie.width",
        {STATE_FILE, f"{PCI}/{GPU3}/current_link_width"},
        lambda m: (state(m, "gpu3")["pcie_width"], text(m, f"{PCI}/{GPU3}/current_link_width")),
        ("8", "8"),
    ),
    (
        "gpu_pcie.generation",
        {STATE_FILE, f"{PCI}/{GPU3}/current_link_speed"},
        lambda m: text(m, f"{PCI}/{GPU3}/current_link_speed"),
        "2.5 GT/s PCIe",
    ),
    ("gpu_temperature.high", {STATE_FILE}, lambda m: state(m, "gpu3")["temperature"], "91"),
    ("gpu_temperature.throttle", {STATE_FILE}, lambda m: state(m, "gpu3")["clocks_event_reasons"], "0x48"),
    (
        "gpu_processes.foreign",
        {STATE_FILE, *(f"proc/31337/{name}" for name in ("comm", "cmdline", "stat", "status", "cgroup"))},
        lambda m: (state(m, "gpu3")["compute_processes"], text(m, "proc/31337/comm")),
        (f"31337:{2048 << 20}", "python3"),
    ),
    (
        "gpu_processes.leftover_memory",
        {STATE_FILE},
        lambda m: state(m, "gpu3")["memory_used"],
        str(4096 << 20),
    ),
    (
        "ib_link.down",
        {f"{IB}/mlx5_2/ports/1/{name}" for name in ("state", "phys_state", "rate", "counters/link_downed")},
        lambda m: (
            text(m, f"{IB}/mlx5_2/ports/1/state"),
            text(m, f"{IB}/mlx5_2/ports/1/counters/link_downed"),
        ),
        ("1: DOWN", "2"),
    ),
    (
        "ib_link.rate",
        {f"{IB}/mlx5_2/ports/1/rate"},
        lambda m: text(m, f"{IB}/mlx5_2/ports/1/rate"),
        "200 Gb/sec (4X HDR)",
    ),
    (
        "ib_link.ethernet",
        {f"{IB}/mlx5_2/ports/1/link_layer"},
        lambda m: text(m, f"{IB}/mlx5_2/ports/1/link_layer"),
        "Ethernet",
    ),
    (
        "ib_errors.symbol_errors",
        {f"{IB}/mlx5_2/ports/1/counters/symbol_error"},
        lambda m: text(m, f"{IB}/mlx5_2/ports/1/counters/symbol_error"),
        "5002",
    ),
    (
        "ib_errors.rnr_nak_retry_err",
        {f"{IB}/mlx5_2/ports/1/hw_counters/rnr_nak_retry_err"},
        lambda m: text(m, f"{IB}/mlx5_2/ports/1/hw_counters/rnr_nak_retry_err"),
        "1",
    ),
    (
        "fs_mounts.wrong_type",
        {"proc/self/mountinfo", "proc/self/mounts", "proc/mounts"},
        lambda m: [line for line in text(m, "proc/mounts").splitlines() if " /local tmpfs " in line] != [],
        True,
    ),
    (
        "fs_mounts.options",
        {"proc/self/mountinfo", "proc/self/mounts", "proc/mounts"},
        lambda m: "/dev/nvme0n1p1 /local xfs rw,relatime,attr2" in text(m, "proc/mounts"),
        True,
    ),
    ("memory_size.low", {"proc/meminfo"}, lambda m: text(m, "proc/meminfo").split()[1], "1979170816"),
    (
        "nvml.hung",
        {STATE_FILE},
        lambda m: state(m, "system")["hang.nvmlDeviceGetHandleByIndex_v2"],
        "forever",
    ),
    ("nvml.mismatch", {STATE_FILE}, lambda m: state(m, "system")["ret.nvmlInitWithFlags"], "18"),
    ("nvml.slow", {STATE_FILE}, lambda m: state(m, "system")["latency_us"], "20000"),
]


@pytest.mark.parametrize(("name", "paths", "look", "wanted"), TABLE, ids=[row[0] for row in TABLE])
def test_a_fault_changes_its_bytes_and_no_others(
    lasting_machine: SimulatedMachine, name: str, paths: set[str], look: Any, wanted: Any
) -> None:
    machine = lasting_machine
    machine.clear()
    machine.reboot()
    before = tree(machine.root)
    machine.fault(name, DEVICES[find(name).device])
    assert changes(before, tree(machine.root)) - {"dev/kmsg"} == paths
    assert look(machine) == wanted


@pytest.mark.parametrize(
    "fault", [one for one in all_faults() if not one.name.startswith("fs_")], ids=lambda f: f.name
)
def test_clearing_restores_all_but_history(lasting_machine: SimulatedMachine, fault: Any) -> None:
    machine = lasting_machine
    machine.clear()
    machine.reboot()
    before = tree(machine.root)
    machine.fault(fault.name, DEVICES[fault.device])
    assert changes(before, tree(machine.root)) != set()
    assert [entry["name"] for entry in machine.faults()] == [fault.name]
    machine.clear()
    left = changes(before, tree(machine.root)) - {"dev/kmsg"}
    counted = {path for path in left if path.rpartition("/")[2] in fault.counts}
    assert left - counted <= ({STATE_FILE} if "pcie_replay" in fault.counts else set())
    assert machine.faults() == []
    if fault.counts:
        machine.reboot()
        rebooted = changes(before, tree(machine.root)) - {"dev/kmsg", "proc/stat"}
        assert rebooted == {"proc/sys/kernel/random/boot_id"}


def test_a_missing_gpu_leaves_no_trace_and_the_others_keep_their_minor_number(
    machine: SimulatedMachine,
) -> None:
    uuid = state(machine, "gpu4")["uuid"]
    machine.fault("gpu_count.missing", "gpu3")
    assert not (machine.root / PCI / GPU3).exists()
    assert not (machine.root / "proc/driver/nvidia/gpus" / GPU3).exists()
    assert state(machine, "system")["count"] == "7"
    assert (state(machine, "gpu3")["uuid"], state(machine, "gpu3")["minor_number"]) == (uuid, "4")


def test_a_missing_adapter_leaves_no_trace(machine: SimulatedMachine) -> None:
    before = tree(machine.root)
    machine.fault("ib_link.missing", "mlx5_2")
    assert not (machine.root / IB / "mlx5_2").exists()
    assert not (machine.root / PCI / HCA2).exists()
    machine.clear()
    assert tree(machine.root) == before
    assert text(machine, f"{IB}/mlx5_2/device/vendor") == "0x15b3"


def test_no_driver_means_no_proc_files_either(machine: SimulatedMachine, nvml: Any) -> None:
    machine.fault("nvml.no_driver")
    assert not (machine.root / "proc/driver/nvidia").exists()
    assert nvml(lambda n: "started") == "DriverNotLoaded"


@pytest.mark.parametrize(
    ("name", "settings", "wanted"),
    [
        (
            "gpu_xid.79",
            {},
            r"NVRM: Xid \(PCI:0000:5d:00\): 79, pid='<unknown>', name=<unknown>, GPU has fallen off .*",
        ),
        (
            "gpu_xid.13",
            {"pid": 4711, "name": "train"},
            r"NVRM: Xid \(PCI:0000:5d:00\): 13, pid=4711, name=train, Graphics SM Warp Exception on .*",
        ),
        (
            "gpu_xid.154",
            {"action": "reboot"},
            r"NVRM: Xid \(PCI:0000:5d:00\): 154, GPU recovery action .* to 0x2 \(Node Reboot Required\)",
        ),
        ("gpu_xid.119", {}, r"NVRM: Xid .*: 119, .* RPC response from GPU3 GSP! .*"),
        ("gpu_xid.161", {}, r"NVRM: Xid \(PCI:0000:5d:00\): 161, pid=20417, name=python3, .*"),
        ("gpu_xid.31", {"text": "own {words}"}, r"NVRM: Xid .*: 31, pid=20417, name=python3, own {words}"),
        ("gpu_remap.pending", {}, r"NVRM: Xid .*: 63, .*"),
        ("gpu_ecc.uncorrected", {}, r"NVRM: Xid .*: 48, .*"),
    ],
)
def test_the_driver_s_lines(
    lasting_machine: SimulatedMachine, name: str, settings: dict[str, Any], wanted: str
) -> None:
    machine = lasting_machine
    machine.clear()
    machine.reboot()
    before = len(log(machine))
    machine.fault(name, "gpu3", **settings)
    assert any(re.fullmatch(wanted, line) for line in log(machine)[before:])


@pytest.mark.parametrize("name", ["gpu_ecc.uncorrected", "gpu_remap.pending", "gpu_remap.failure"])
def test_the_kernel_can_be_silent(lasting_machine: SimulatedMachine, name: str) -> None:
    machine = lasting_machine
    machine.clear()
    machine.reboot()
    before = log(machine)
    machine.fault(name, "gpu3", kernel_line="no")
    assert log(machine) == before


def test_counters_go_up_with_each_call_until_the_next_boot(machine: SimulatedMachine) -> None:
    path = f"{IB}/mlx5_2/ports/1/counters/symbol_error"
    for _ in range(3):
        machine.fault("ib_errors.symbol_errors", "mlx5_2/1", count=10)
    machine.clear()
    assert text(machine, path) == "32"
    machine.reboot()
    assert text(machine, path) == "2"


def test_faults_add_up_and_are_cleared_one_by_one(machine: SimulatedMachine) -> None:
    machine.fault("gpu_pcie.width", "gpu3", width=4)
    machine.fault("gpu_pcie.width", "gpu5")
    machine.fault("gpu_temperature.high", "gpu3")
    machine.fault("gpu_pcie.width", "gpu3", width=2)
    assert [(one["name"], one["device"]) for one in machine.faults()] == [
        ("gpu_pcie.width", "gpu5"),
        ("gpu_temperature.high", "gpu3"),
        ("gpu_pcie.width", "gpu3"),
    ]
    assert state(machine, "gpu3")["pcie_width"] == "2"
    machine.clear("gpu_pcie.width", "gpu3")
    assert "pcie_width" not in state(machine, "gpu3")
    assert state(machine, "gpu5")["pcie_width"] == "8"
    machine.clear("gpu_pcie")
    assert [one["name"] for one in machine.faults()] == ["gpu_temperature.high"]


@pytest.mark.parametrize(
    ("name", "device", "settings", "words"),
    [
        ("gpu_count.lots", "gpu0", {}, "unknown fault 'gpu_count.lots'.*gpu_count.lost"),
        ("nonsense", None, {}, "unknown fault 'nonsense'"),
        ("gpu_xid.x79", "gpu0", {}, "unknown fault"),
        ("gpu_xid.0", "gpu0", {}, "unknown fault"),
        ("ib_errors.no_counter", "mlx5_0/1", {}, "unknown fault"),
        ("gpu_count.lost", None, {}, "needs a device, such as gpu0"),
        ("gpu_count.lost", "gpu8", {}, "no device 'gpu8'.*gpu0, gpu1"),
        ("ib_link.down", "mlx5_0/2", {}, "no device 'mlx5_0/2'.*mlx5_0/1"),
        ("fs_mounts.missing", "scratch", {}, "no device 'scratch'.*/scratch"),
        ("nvml.no_driver", "gpu0", {}, "takes no device"),
        ("gpu_pcie.width", "gpu0", {"lanes": 4}, "no setting 'lanes'; it has: width=8"),
        ("gpu_pcie.width", "gpu0", {"width": "wide"}, "a setting is no number"),
        ("ib_errors.link_downed", "mlx5_0/1", {"count": "many"}, "a setting is no number"),
        ("kernel_log.line", None, {"priority": "loud"}, "a setting is no number"),
    ],
)
def test_mistakes_are_named_and_change_nothing(
    lasting_machine: SimulatedMachine, name: str, device: str | None, settings: dict[str, Any], words: str
) -> None:
    machine = lasting_machine
    machine.clear()
    machine.reboot()
    before = tree(machine.root)
    with pytest.raises(FaultError, match=words):
        machine.fault(name, device, **settings)
    assert tree(machine.root) == before
    assert machine.faults() == []


def test_a_reboot_is_a_new_boot_and_the_hardware_stays_broken(machine: SimulatedMachine) -> None:
    machine.fault("gpu_pcie.width", "gpu3")
    (machine.root / "run/slurm-guard").mkdir()
    (machine.root / "var/lib/kept").write_text("disk")
    before, boot_id = log(machine), text(machine, "proc/sys/kernel/random/boot_id")
    serial = text(machine, "sys/class/dmi/id/product_serial")
    machine.kernel_says("before the reboot")
    assert float(text(machine, CLOCK).split()[0]) > 86400
    machine.reboot()
    assert text(machine, "proc/sys/kernel/random/boot_id") != boot_id
    assert 0 < float(text(machine, CLOCK).split()[0]) < 300
    assert log(machine) == before[: len(log(machine))]
    assert text(machine, "sys/class/dmi/id/product_serial") == serial
    assert state(machine, "gpu3")["pcie_width"] == "8"
    assert list((machine.root / "run").iterdir()) == []
    assert text(machine, "var/lib/kept") == "disk"


def test_two_machines_differ_and_the_same_name_and_seed_do_not(tmp_path: Path) -> None:
    from minicluster.machine.model import healthy

    one, same, other = (healthy(name, "s", "b", 1.0) for name in ("n1", "n1", "n2"))
    assert one == same
    assert {gpu.uuid for gpu in one.gpus}.isdisjoint(gpu.uuid for gpu in other.gpus)
    assert one.serial != other.serial


def test_addresses_agree_between_nvml_and_the_bus(machine: SimulatedMachine) -> None:
    for number in range(8):
        bus_id = state(machine, f"gpu{number}")["bus_id"]
        folder = machine.root / PCI / bus_id[4:].lower()
        assert (folder / "class").read_text() == "0x030200\n"
    classes = [path.read_text().strip() for path in (machine.root / PCI).glob("*/class")]
    assert (classes.count("0x030200"), classes.count("0x020700"), classes.count("0x068000")) == (8, 8, 4)


def test_the_state_on_disk_is_enough(machine: SimulatedMachine) -> None:
    machine.fault("gpu_pcie.width", "gpu3")
    again = SimulatedMachine(machine.root.parent.parent, "n1")
    again.clear()
    assert "pcie_width" not in state(machine, "gpu3")
    assert json.loads(machine.state_path.read_text())["faults"] == []
