"""What the field reports of GPUs that answer: two sources that disagree, normal bits, idle links, counts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from minicluster.machine.model import Process
from slurm_guard.checks.gpu_count import GpuCount
from slurm_guard.checks.gpu_remap import GpuRemap
from slurm_guard.core.expectation import Expectation
from slurm_guard.core.outcome import Facts
from tests.unit.checks.simulated_node import SimulatedNode, brief

if TYPE_CHECKING:
    from pathlib import Path

ALL = ["0", "1", "2", "3", "4", "5", "6", "7"]
OWN = {"job_id": 640, "uid": 3105, "user": "ines", "gpus": ALL}
PROLOG = {"hook": "prolog", "own": None, "job_gpus": ALL, "job_id": 641, "uid": 3106}
EPILOG = {"hook": "epilog", "own": OWN, "allocations": [OWN], "job_gpus": ALL}


@pytest.mark.parametrize(
    ("action", "fault", "status", "tier"),
    [
        (1, "gpu_count.reset_required", "fail", "DRAIN_RESET"),
        (2, "gpu_count.reboot_required", "fail", "DRAIN_REBOOT"),
        (3, "gpu_count.drain_p2p", "fail", "DRAIN"),
        (4, "gpu_count.reset_required", "fail", "DRAIN_RESET"),
        (6, "gpu_count.reset_required", "fail", "DRAIN_RESET"),
        (77, "gpu_count", "unknown", "DRAIN"),
    ],
)
def test_the_drivers_own_word_wins_over_readings_that_look_well(
    simulated: SimulatedNode, action: int, fault: str, status: str, tier: str
) -> None:
    simulated.gpu(2, field__230=action)
    assert brief(simulated.look("gpu_count")) == {(fault, "gpu2", status, tier)}


@pytest.mark.parametrize("code", [10, 17, 20])
def test_a_recovery_action_that_cannot_be_read_is_unknown(simulated: SimulatedNode, code: int) -> None:
    simulated.gpu(2, **{"ret.nvmlDeviceGetFieldValues": code})
    assert brief(simulated.look("gpu_count")) == {("gpu_count", "gpu2", "unknown", "DRAIN")}


@pytest.mark.parametrize(
    ("gpus", "bus", "status", "words"),
    [
        (None, None, "unknown", "the PCI bus cannot be read"),
        (None, [], "skip", "none on the PCI bus"),
        (0, None, "skip", "the PCI bus cannot be read"),
        (0, [], "skip", "0 on the PCI bus"),
        (0, [Facts(address="0000:18:00.0", vendor="0x10de", config_dead=False)], "skip", "1 on the PCI bus"),
    ],
)
def test_no_driver_where_no_gpu_is_expected_is_said_as_it_is(
    gpus: int | None, bus: list[Facts] | None, status: str, words: str
) -> None:
    nvml = Facts(state="no_driver", binding=True, kernel_version=None, error="", code=9, gpus=[])
    facts = Facts(nvml=nvml, pci=bus, problems=Facts())
    (found,) = GpuCount().findings(facts, Facts(gpus=gpus), Expectation())
    assert (found.status, found.device) == (status, None)
    assert words in found.message


def test_no_recovery_action_passes(simulated: SimulatedNode) -> None:
    assert simulated.look("gpu_count") == []
    assert simulated.result.status == "pass"


@pytest.mark.parametrize("call", ["FanSpeed", "PowerUsage", "TotalEccErrors", "PersistenceMode"])
def test_one_reading_with_an_error_is_a_finding_while_others_look_well(
    simulated: SimulatedNode, call: str
) -> None:
    simulated.gpu(6, **{f"ret.nvmlDeviceGet{call}": 999})
    (found,) = simulated.look("gpu_count")
    assert (found.fault, found.device, found.tier) == ("gpu_count.unreadable", "gpu6", "DRAIN_RESET")


def test_the_recovery_action_is_the_cause_of_readings_that_fail(simulated: SimulatedNode) -> None:
    simulated.gpu(6, **{"ret.nvmlDeviceGetFanSpeed": 999, "field.230": 1})
    first, second = simulated.look("gpu_count")
    assert (first.fault, second.fault) == ("gpu_count.reset_required", "gpu_count.unreadable")
    assert "fan_percent" in second.message


def test_no_fan_is_no_fault(simulated: SimulatedNode) -> None:
    """Cards without a fan of their own answer that they do not support it."""
    simulated.gpu(1, **{"ret.nvmlDeviceGetFanSpeed": 3})
    assert simulated.look("gpu_count") == []


@pytest.mark.parametrize(("module", "library"), [("565.57.01", "565.77"), ("580.95.05", "580.65.06")])
def test_a_version_mismatch_names_both_and_is_not_hardware(
    own_node: SimulatedNode, module: str, library: str
) -> None:
    own_node.machine.driver_version = module
    own_node.machine.nvml["ret.nvmlInitWithFlags"] = "18"
    own_node.show()
    rename_library(own_node.root, library)
    (found,) = own_node.look("gpu_count")
    assert (found.fault, found.tier, found.scope) == ("gpu_count.mismatch", "DRAIN_REBOOT", "node")
    assert module in found.message
    assert library in found.message
    assert "not hardware" in found.message
    assert "running jobs end" in (found.remedy or "")


def rename_library(root: Path, version: str) -> None:
    """As packages do it: the file has the version in its name, the name that is loaded is a link."""
    link = root / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    link.rename(link.with_name(f"libnvidia-ml.so.{version}"))
    link.symlink_to(f"libnvidia-ml.so.{version}")


@pytest.mark.parametrize(
    ("absent", "loaded", "faults"),
    [
        (8, False, {"gpu_count.no_driver": "DRAIN", "gpu_count.none": "DRAIN"}),
        (8, True, {"gpu_count.none": "DRAIN"}),
        (0, False, {"gpu_count.no_driver": "DRAIN"}),
        (1, True, {"gpu_count.missing": "DRAIN_REBOOT"}),
        (3, True, {"gpu_count.missing": "DRAIN_REBOOT"}),
    ],
)
def test_none_of_eight_is_software_and_seven_of_eight_is_a_gpu(
    simulated: SimulatedNode, absent: int, loaded: bool, faults: dict[str, str]
) -> None:
    """The PCI bus is the referee."""
    for gpu in simulated.machine.gpus[5 : 5 + absent] if absent < 8 else simulated.machine.gpus:
        gpu.present = False
    simulated.machine.driver_loaded = loaded
    simulated.show()
    assert {one.fault: one.tier for one in simulated.look("gpu_count")} == faults


def test_the_bus_has_eight_and_the_driver_shows_seven(simulated: SimulatedNode) -> None:
    """Hooks in a job's cgroup see fewer: that is a view, not a fault."""
    simulated.machine.nvml["count"] = "7"
    simulated.show()
    (found,) = simulated.look("gpu_count")
    assert (found.status, found.tier) == ("unknown", "DRAIN")
    assert "8 are on the PCI bus" in found.message


def test_zero_rows_from_a_driver_that_works_are_unknown(simulated: SimulatedNode) -> None:
    simulated.machine.nvml["count"] = "0"
    simulated.show()
    assert [one.status for one in simulated.look("gpu_count")] == ["unknown"]


@pytest.mark.parametrize("slices", [3, 4, 7])
def test_a_new_cut_into_mig_slices_is_no_lost_gpu(simulated: SimulatedNode, slices: int) -> None:
    """All parents are there: what slurm.conf expects of slices is configuration, not hardware."""
    simulated.machine.gpus[4].mig = [f"MIG-0c0c0c0c-0000-4000-8000-0000000000{n:02d}" for n in range(slices)]
    simulated.show()
    assert simulated.look("gpu_count") == []
    assert simulated.result.status == "pass"


@pytest.mark.parametrize("check", ["gpu_count", "gpu_ecc", "gpu_temperature", "gpu_pcie", "gpu_remap"])
def test_mig_on_one_gpu_breaks_no_check_and_hides_no_plain_gpu(simulated: SimulatedNode, check: str) -> None:
    simulated.machine.gpus[4].mig = ["MIG-0c0c0c0c-0000-4000-8000-000000000001"]
    simulated.gpu(7, temperature=103, pcie_width=8, remap_failure=1, ecc__volatile__uncorrected=0)
    found = simulated.look(check)
    assert {one.device for one in found} <= {"gpu7"}
    assert simulated.result.status in ("pass", "warn", "fail")


@pytest.mark.parametrize("bits", [0x0, 0x1, 0x2, 0x4, 0x10, 0x100, 0x1 | 0x4, 0x117, 0x1000])
def test_idle_and_power_cap_are_no_throttling(simulated: SimulatedNode, bits: int) -> None:
    simulated.gpu(0, clocks_event_reasons=f"{bits:#018x}")
    assert simulated.look("gpu_temperature") == []


@pytest.mark.parametrize(
    ("bits", "fault", "tier"),
    [
        (0x40, "gpu_temperature.slowdown", "DRAIN"),
        (0x44, "gpu_temperature.slowdown", "DRAIN"),
        (0x48, "gpu_temperature.slowdown", "DRAIN"),
        (0x80, "gpu_temperature.power_brake", "WARN"),
        (0x08, "gpu_temperature.hw_slowdown", "WARN"),
        (0x21, "gpu_temperature.sw_slowdown", "WARN"),
    ],
)
def test_bits_of_trouble_are_found_among_normal_ones(
    simulated: SimulatedNode, bits: int, fault: str, tier: str
) -> None:
    simulated.gpu(3, clocks_event_reasons=f"{bits:#x}")
    assert {(one.fault, one.device, one.tier) for one in simulated.look("gpu_temperature")} == {
        (fault, "gpu3", tier)
    }


@pytest.mark.parametrize("call", ["CurrentClocksEventReasons", "CurrentClocksThrottleReasons"])
def test_the_reasons_have_an_old_and_a_new_name(simulated: SimulatedNode, call: str) -> None:
    simulated.gpu(3, **{"clocks_event_reasons": "0x40", f"ret.nvmlDeviceGet{call}": 13})
    assert [one.fault for one in simulated.look("gpu_temperature")] == ["gpu_temperature.slowdown"]


BUSY: dict[str, Any] = {"clocks_event_reasons": "0x4", "performance_state": 0}
IDLE: dict[str, Any] = {"clocks_event_reasons": "0x1", "performance_state": 8}


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        ({**IDLE, "pcie_generation": 1}, ""),
        ({**IDLE, "pcie_generation": 3}, ""),
        ({**IDLE, "pcie_width": 8}, "gpu_pcie.width"),
        ({**IDLE, "pcie_width": 4, "pcie_generation": 1}, "gpu_pcie.width"),
        ({**BUSY, "pcie_generation": 2}, "gpu_pcie.generation"),
        ({**BUSY, "pcie_generation": 4}, "gpu_pcie.generation"),
        ({**BUSY, "pcie_width": 8}, "gpu_pcie.width"),
        ({**BUSY, "pcie_generation": 4, "pcie_generation_max": 4}, ""),
        ({**BUSY, "pcie_width": 8, "pcie_width_max": 8}, ""),
        ({"clocks_event_reasons": "0x1", "performance_state": 0, "pcie_generation": 1}, ""),
    ],
)
def test_a_narrow_link_is_a_fault_at_any_load_and_a_slow_one_only_at_work(
    simulated: SimulatedNode, answers: dict[str, Any], fault: str
) -> None:
    simulated.gpu(1, **answers)
    assert [one.fault for one in simulated.look("gpu_pcie")] == ([fault] if fault else [])


def put_process(node: SimulatedNode, gpu: int, pid: int, uid: int, name: str) -> None:
    node.machine.processes.append(Process(pid, name, uid))
    node.gpu(gpu, compute_processes=f"{pid}:30000000000", memory_used=30_000_000_000)


@pytest.mark.parametrize(("run", "fault"), [(PROLOG, "foreign"), (EPILOG, "leftover")])
def test_a_left_over_process_is_named_with_its_gpu_only(
    simulated: SimulatedNode, run: dict[str, Any], fault: str
) -> None:
    put_process(simulated, 1, 61_330, 3105, "python")
    (found,) = simulated.look("gpu_processes", run=run)
    assert (found.fault, found.device, found.tier, found.blame) == (
        f"gpu_processes.{fault}",
        "gpu1",
        "DRAIN",
        "job",
    )
    assert re.search("61330 .python. of uid 3105", found.message)


def test_services_of_the_node_are_no_left_over(simulated: SimulatedNode) -> None:
    for gpu, name in enumerate(["nvidia-cuda-mps", "nv-hostengine", "nvidia-persiste", "dcgmproftester"]):
        put_process(simulated, gpu, 900 + gpu, 0, name)
    assert simulated.look("gpu_processes", run=PROLOG) == []


@pytest.mark.parametrize("mib", [65, 300, 40_000])
def test_a_container_sees_no_process_so_memory_in_use_is_unknown(simulated: SimulatedNode, mib: int) -> None:
    simulated.hide_processes()
    simulated.gpu(2, memory_used=mib << 20)
    found = simulated.look("gpu_processes", run=PROLOG)
    assert [(one.device, one.status) for one in found] == [("gpu2", "unknown")]


def test_a_container_with_free_memory_is_free(simulated: SimulatedNode) -> None:
    simulated.hide_processes()
    assert simulated.look("gpu_processes", run=PROLOG) == []
    assert simulated.result.status == "pass"


def test_a_container_takes_no_process_of_its_own_for_one_of_the_hosts(simulated: SimulatedNode) -> None:
    """NVML tells the host's numbers; the same number is somebody else in here."""
    put_process(simulated, 2, 812, 3105, "sleep")
    simulated.hide_processes()
    simulated.gpu(2, memory_used=9 << 30)
    found = simulated.look("gpu_processes", run=PROLOG)
    assert [(one.device, one.status) for one in found] == [("gpu2", "unknown")]


@pytest.mark.parametrize("code", [3, 13, 999])
def test_a_container_that_cannot_see_memory_either_never_passes(simulated: SimulatedNode, code: int) -> None:
    simulated.hide_processes()
    for gpu in range(8):
        simulated.gpu(gpu, **{"ret.nvmlDeviceGetMemoryInfo_v2": code, "ret.nvmlDeviceGetMemoryInfo": code})
    simulated.look("gpu_processes", run=PROLOG)
    assert simulated.result.status == "unknown"


def test_a_container_with_mig_slices_never_passes(simulated: SimulatedNode) -> None:
    simulated.hide_processes()
    simulated.machine.gpus[5].mig = ["MIG-0c0c0c0c-0000-4000-8000-000000000001"]
    simulated.show()
    assert [(one.device, one.status) for one in simulated.look("gpu_processes", run=PROLOG)] == [
        ("gpu5", "unknown")
    ]


def test_memory_of_a_process_that_is_gone_is_a_warning(simulated: SimulatedNode) -> None:
    simulated.gpu(2, memory_used=9 << 30, compute_processes="4404:9663676416")
    (found,) = simulated.look("gpu_processes", run=EPILOG)
    assert (found.fault, found.status, found.tier) == ("gpu_processes.memory", "warn", "WARN")
    assert "already gone (pid 4404)" in found.message


@pytest.mark.parametrize(("memory", "fault"), [(96, "slowdown"), (60, "hw_slowdown")])
def test_hot_memory_is_heat_too(simulated: SimulatedNode, memory: int, fault: str) -> None:
    simulated.gpu(4, field__82=memory, clocks_event_reasons="0x8")
    found = [one.fault for one in simulated.look("gpu_temperature") if "slowdown" in one.fault]
    assert found == [f"gpu_temperature.{fault}"]


@pytest.mark.parametrize("reading", ["retired_sbe", "retired_dbe"])
def test_retired_pages_that_cannot_be_counted_are_unknown(reading: str) -> None:
    values = {"retired_sbe": 0, "retired_dbe": 0, "retired_pending": 0}
    del values[reading]
    gpu = Facts(index=0, minor=0, uuid="GPU-1", pci=None, error=None, mig=None, values=values)
    gpu["errors"] = Facts({reading: "Timeout"})
    found = GpuRemap().findings(Facts(state="ok", gpus=[gpu]), Facts(GpuRemap.params), Expectation())
    assert "unknown" in {one.status for one in found}


@pytest.mark.parametrize(
    ("check", "answers"),
    [
        ("gpu_pcie", {"pcie_width": 8}),
        ("gpu_pcie", {"pcie_generation": 2, "performance_state": 0, "clocks_event_reasons": 0}),
        ("gpu_temperature", {"temperature": 88}),
        ("gpu_temperature", {"field__82": 99}),
        ("gpu_remap", {"remap_uncorrected": 600}),
    ],
)
def test_a_message_names_its_gpu(simulated: SimulatedNode, check: str, answers: dict[str, int]) -> None:
    simulated.gpu(6, **answers)
    (found,) = simulated.look(check)
    assert found.message.startswith("gpu6: ")
