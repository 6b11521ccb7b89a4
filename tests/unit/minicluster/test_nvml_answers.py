"""What the NVML double answers through the real nvidia-ml-py binding: values, structures, fields."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import pytest

from minicluster.machine.gpu import DEFAULTS

from .nvml_questions import Ask, gpu0, write_state

if TYPE_CHECKING:
    from minicluster.simulated import SimulatedMachine


def test_a_healthy_machine_answers(nvml: Ask) -> None:
    def look(n: Any) -> Any:
        handles = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
        return {
            "uuids": len({n.nvmlDeviceGetUUID(h) for h in handles}),
            "buses": [n.nvmlDeviceGetPciInfo(h).busId for h in handles],
            "minor": [n.nvmlDeviceGetMinorNumber(h) for h in handles],
            "names": {n.nvmlDeviceGetName(h) for h in handles},
            "driver": n.nvmlSystemGetDriverVersion(),
            "memory": n.nvmlDeviceGetMemoryInfo(handles[0], version=n.nvmlMemory_v2).used,
            "processes": n.nvmlDeviceGetComputeRunningProcesses(handles[0]),
        }

    found = nvml(look)
    assert found["uuids"] == 8
    assert found["buses"][0] == "00000000:18:00.0"
    assert found["minor"] == list(range(8))
    assert found["names"] == {DEFAULTS["name"]}
    assert found["driver"] == "550.127.08"
    assert found["memory"] == 0
    assert found["processes"] == []


@pytest.mark.parametrize(
    ("state", "question", "wanted"),
    [
        ("[gpu0]\ntemperature=93", gpu0("nvmlDeviceGetTemperature", 0), 93),
        ("[gpu0]\ntemperature=93", gpu0("nvmlDeviceGetTemperatureV", 0), 93),
        ("[gpu0]\ntemperature=N/A", gpu0("nvmlDeviceGetTemperature", 0), "NotSupported"),
        ("[gpu0]\ntemperature_margin=-3", gpu0("nvmlDeviceGetMarginTemperature"), -3),
        ("[gpu0]\ntemperature_threshold.1=80", gpu0("nvmlDeviceGetTemperatureThreshold", 1), 80),
        ("[gpu0]\nclocks_event_reasons=0x48", gpu0("nvmlDeviceGetCurrentClocksEventReasons"), 0x48),
        ("[gpu0]\nclocks_event_reasons=0x48", gpu0("nvmlDeviceGetCurrentClocksThrottleReasons"), 0x48),
        ("[gpu0]\npcie_width=4", gpu0("nvmlDeviceGetCurrPcieLinkWidth"), 4),
        ("[gpu0]\npcie_replay=77", gpu0("nvmlDeviceGetPcieReplayCounter"), 77),
        ("[gpu0]\necc_mode=1\necc_mode_pending=0", gpu0("nvmlDeviceGetEccMode"), [1, 0]),
        ("[gpu0]\necc.volatile.uncorrected=5", gpu0("nvmlDeviceGetTotalEccErrors", 1, 0), 5),
        ("[gpu0]\necc.aggregate.corrected.7=6", gpu0("nvmlDeviceGetMemoryErrorCounter", 0, 1, 7), 6),
        ("[gpu0]\necc_mode=0", gpu0("nvmlDeviceGetTotalEccErrors", 1, 0), "NotSupported"),
        (
            "[gpu0]\nremap_corrected=1\nremap_uncorrected=2\nremap_pending=1\nremap_failure=1",
            gpu0("nvmlDeviceGetRemappedRows"),
            (1, 2, 1, 1),
        ),
        ("[gpu0]\nretired_pages.0=3", lambda n: len(gpu0("nvmlDeviceGetRetiredPages_v2", 0)(n)), 3),
        ("[gpu0]\nretired_pages_pending=1", gpu0("nvmlDeviceGetRetiredPagesPendingStatus"), 1),
        ("[gpu0]\nnvlink_down=2,7", gpu0("nvmlDeviceGetNvLinkState", 7), 0),
        ("[gpu0]\nnvlink_down=2,17", gpu0("nvmlDeviceGetNvLinkState", 7), 1),
        ("", gpu0("nvmlDeviceGetNvLinkState", 18), "NotSupported"),
        ("", gpu0("nvmlDeviceGetNvLinkState", 36), "InvalidArgument"),
        ("[gpu0]\nnvlink_errors.3.1=9", gpu0("nvmlDeviceGetNvLinkErrorCounter", 3, 1), 9),
        ("[gpu0]\nrepair_pending.tpc=1", gpu0("nvmlDeviceGetRepairStatus"), [0, 1]),
        ("[gpu0]\npower_mw=N/A", gpu0("nvmlDeviceGetPowerUsage"), "NotSupported"),
        ("[gpu0]\nret.nvmlDeviceGetPowerUsage=999", gpu0("nvmlDeviceGetPowerUsage"), "Unknown"),
        ("[gpu0]\nlost=1", gpu0("nvmlDeviceGetPowerUsage"), "GpuIsLost"),
        ("[gpu0]\nreset_required=1", gpu0("nvmlDeviceGetName"), "ResetRequired"),
        ("[gpu1]\nlost=1", gpu0("nvmlDeviceGetIndex"), 0),
        ("[system]\ncount=5", lambda n: n.nvmlDeviceGetCount(), 5),
        ("[system]\ncount=5", lambda n: n.nvmlDeviceGetHandleByIndex(5), "InvalidArgument"),
        ("[system]\nret.nvmlInitWithFlags=9", lambda n: "started", "DriverNotLoaded"),
        ("[system]\nret.nvmlInitWithFlags=12", lambda n: "started", "LibraryNotFound"),
        ("[system]\nret.nvmlInitWithFlags=18", lambda n: "started", "LibRmVersionMismatch"),
        ("[system]\nprocess_name.42=train", lambda n: n.nvmlSystemGetProcessName(42), "train"),
        ("", lambda n: n.nvmlSystemGetProcessName(42), "NotFound"),
        ("", lambda n: n.nvmlDeviceGetHandleByUUID("GPU-0"), "NotFound"),
    ],
)
def test_a_key_becomes_an_answer(
    machine: SimulatedMachine, nvml: Ask, state: str, question: Any, wanted: Any
) -> None:
    write_state(machine.root, state)
    assert nvml(question) == wanted


def test_structures_have_the_binding_s_layout(machine: SimulatedMachine, nvml: Ask) -> None:
    write_state(
        machine.root,
        "[gpu0]\nmemory_total=1000\nmemory_used=300\nmemory_reserved=100\nsram_ecc.threshold_exceeded=1\n"
        "sram_ecc.bucket.other=4\nsram_ecc.aggregate.uncorrected_parity=5\nremap_banks.max=10\n"
        "remap_banks.none=2\nfabric_state=2\nfabric_clique=3\nfabric_health_mask=0x1a9\nbar1_used=8\n"
        "utilization_gpu=70\nutilization_memory=20\nviolation_ns.1=12",
    )

    def look(n: Any) -> Any:
        h = n.nvmlDeviceGetHandleByIndex(0)
        sram, fabric, fabric_v = (
            n.c_nvmlEccSramErrorStatus_v1_t(),
            n.c_nvmlGpuFabricInfo_t(),
            n.c_nvmlGpuFabricInfo_v3_t(),
        )
        sram.version = n.nvmlEccSramErrorStatus_v1 if hasattr(n, "nvmlEccSramErrorStatus_v1") else 0x1000068
        fabric_v.version = n.nvmlGpuFabricInfo_v3
        n.nvmlDeviceGetSramEccErrorStatus(h, ctypes.byref(sram))
        n.nvmlDeviceGetGpuFabricInfo(h, ctypes.byref(fabric))
        n.nvmlDeviceGetGpuFabricInfoV(h, ctypes.byref(fabric_v))
        memory, memory2 = n.nvmlDeviceGetMemoryInfo(h), n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2)
        histogram, rates = n.nvmlDeviceGetRowRemapperHistogram(h), n.nvmlDeviceGetUtilizationRates(h)
        return {
            "sram": (sram.aggregateUncParity, sram.aggregateUncBucketOther, sram.bThresholdExceeded),
            "fabric": (fabric.state, fabric.cliqueId),
            "fabric_v": (fabric_v.state, fabric_v.cliqueId, fabric_v.healthMask, fabric_v.healthSummary),
            "memory": (memory.total, memory.used, memory.free),
            "memory2": (memory2.total, memory2.reserved, memory2.used, memory2.free),
            "histogram": (histogram.max, histogram.none),
            "rates": (rates.gpu, rates.memory),
            "bar1": n.nvmlDeviceGetBAR1MemoryInfo(h).bar1Used,
            "violation": n.nvmlDeviceGetViolationStatus(h, 1).violationTime,
        }

    assert nvml(look) == {
        "sram": (5, 4, 1),
        "fabric": (2, 3),
        "fabric_v": (2, 3, 0x1A9, 1),
        "memory": (1000, 400, 600),
        "memory2": (1000, 100, 300, 600),
        "histogram": (10, 2),
        "rates": (70, 20),
        "bar1": 8,
        "violation": 12,
    }


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("41", (0, 3, 41)),
        ("0x10", (0, 3, 16)),
        ("-2", (0, 4, -2)),
        ("1.5e-12", (0, 0, 1.5e-12)),
        ("N/A", (3, None, 0)),
    ],
)
def test_a_field_value_carries_its_own_code_and_type(
    machine: SimulatedMachine, nvml: Ask, text: str, wanted: tuple[int, int | None, float]
) -> None:
    write_state(machine.root, f"[gpu0]\nfield.150={text}\nfield.150.3=7")

    def look(n: Any) -> Any:
        first, scoped = n.nvmlDeviceGetFieldValues(n.nvmlDeviceGetHandleByIndex(0), [150, (150, 3)])
        value = {0: first.value.dVal, 4: first.value.sllVal}.get(first.valueType, first.value.ullVal)
        kind = first.valueType if first.nvmlReturn == 0 else None
        return (
            first.nvmlReturn,
            kind,
            value if first.nvmlReturn == 0 else first.value.ullVal,
        ), scoped.value.ullVal

    assert nvml(look) == (wanted, 7)
