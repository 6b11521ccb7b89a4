"""The C test double of NVML, through the real nvidia-ml-py binding."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from minicluster import nvml_library
from minicluster.errors import RequirementError
from minicluster.machine.gpu import DEFAULTS, STATE_FILE

from .conftest import CrashedError, HungError, ask_nvml

if TYPE_CHECKING:
    from minicluster.simulated import SimulatedMachine

Ask = Callable[..., Any]


def write_state(root: Path, extra: str) -> None:
    """Put `extra` at the end of the state file, where it wins."""
    path = root / STATE_FILE
    temporary = path.with_suffix(".new")
    temporary.write_text(path.read_text() + "\n" + extra + "\n")
    temporary.rename(path)


def gpu0(call: str, *arguments: object) -> Callable[[Any], Any]:
    """A question: this call about GPU 0, or the name of its error."""
    return lambda nvml: getattr(nvml, call)(nvml.nvmlDeviceGetHandleByIndex(0), *arguments)


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


@pytest.mark.parametrize("form", ["00000000:2A:00.0", "0000:2a:00.0", "2a:00.0"])
def test_handles_by_bus_id_uuid_and_serial(nvml: Ask, form: str) -> None:
    def look(n: Any) -> Any:
        handle = n.nvmlDeviceGetHandleByPciBusId(form)
        by_uuid = n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(handle))
        by_serial = n.nvmlDeviceGetHandleBySerial(n.nvmlDeviceGetSerial(handle))
        return [n.nvmlDeviceGetIndex(h) for h in (handle, by_uuid, by_serial)]

    assert nvml(look) == [1, 1, 1]


def test_processes_with_and_without_memory(machine: SimulatedMachine, nvml: Ask) -> None:
    write_state(machine.root, "[gpu0]\ncompute_processes=41:1024,42\n[gpu1]\ncompute_processes=N/A")

    def look(n: Any) -> Any:
        processes = n.nvmlDeviceGetComputeRunningProcesses(n.nvmlDeviceGetHandleByIndex(0))
        return [(one.pid, one.usedGpuMemory) for one in processes]

    assert nvml(look) == [(41, 1024), (42, None)]
    assert (
        nvml(lambda n: n.nvmlDeviceGetComputeRunningProcesses(n.nvmlDeviceGetHandleByIndex(1)))
        == "NotSupported"
    )


def test_mig_devices(machine: SimulatedMachine, nvml: Ask) -> None:
    machine.fault("gpu_mig.enabled", "gpu2", devices=3)

    def look(n: Any) -> Any:
        gpu = n.nvmlDeviceGetHandleByIndex(2)
        migs = [n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, i) for i in range(3)]
        uuids = [n.nvmlDeviceGetUUID(mig) for mig in migs]
        parents = [n.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig) for mig in migs]
        return {
            "mode": n.nvmlDeviceGetMigMode(gpu),
            "most": n.nvmlDeviceGetMaxMigDeviceCount(gpu),
            "uuids": len(set(uuids)),
            "prefix": {uuid[:4] for uuid in uuids},
            "is_mig": [n.nvmlDeviceIsMigDeviceHandle(h).value for h in (gpu, migs[0])],
            "parent": {n.nvmlDeviceGetIndex(h) for h in parents},
            "found": n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(uuids[2])),
            "instance": n.nvmlDeviceGetGpuInstanceId(migs[1]),
        }

    assert nvml(look) == {
        "mode": [1, 1],
        "most": 7,
        "uuids": 3,
        "prefix": {"MIG-"},
        "is_mig": [0, 1],
        "parent": {2},
        "found": 2,
        "instance": 8,
    }
    assert nvml(lambda n: n.nvmlDeviceGetRemappedRows(n.nvmlDeviceGetHandleByIndex(2))) == "NotSupported"
    assert (
        nvml(lambda n: n.nvmlDeviceGetMigDeviceHandleByIndex(n.nvmlDeviceGetHandleByIndex(2), 3))
        == "NotFound"
    )
    assert nvml(lambda n: n.nvmlDeviceGetMaxMigDeviceCount(n.nvmlDeviceGetHandleByIndex(0))) == 7


def test_xid_events_reach_a_listener_once(machine: SimulatedMachine, nvml: Ask) -> None:
    write_state(machine.root, "[gpu3]\nxid_events=13")

    def listen(n: Any) -> Any:
        events, handle = n.nvmlEventSetCreate(), n.nvmlDeviceGetHandleByIndex(3)
        n.nvmlDeviceRegisterEvents(handle, n.nvmlEventTypeXidCriticalError, events)
        write_state(machine.root, "[gpu3]\nxid_events=13,79,48")
        found = [n.nvmlEventSetWait_v2(events, 5000).eventData for _ in range(2)]
        try:
            n.nvmlEventSetWait_v2(events, 50)
        except n.NVMLError_Timeout:
            found.append("timeout")
        return found

    assert nvml(listen) == [79, 48, "timeout"]


def test_a_change_reaches_a_running_process(machine: SimulatedMachine, nvml: Ask) -> None:
    def look(n: Any) -> Any:
        handle = n.nvmlDeviceGetHandleByIndex(4)
        before = n.nvmlDeviceGetTemperature(handle, 0)
        machine.fault("gpu_temperature.high", "gpu4", celsius=96)
        during = n.nvmlDeviceGetTemperature(handle, 0)
        machine.clear()
        return before, during, n.nvmlDeviceGetTemperature(handle, 0)

    assert nvml(look) == (31, 96, 31)


def test_a_call_that_never_returns(machine: SimulatedMachine, nvml: Ask) -> None:
    machine.fault("nvml.hung", call="nvmlDeviceGetName")
    assert nvml(gpu0("nvmlDeviceGetIndex")) == 0
    with pytest.raises(HungError):
        nvml(gpu0("nvmlDeviceGetName"), patience=0.5)


def test_hanging_from_the_start(machine: SimulatedMachine, nvml: Ask) -> None:
    machine.fault("nvml.hung", call="*")
    with pytest.raises(HungError):
        nvml(lambda n: None, patience=0.5)


def test_a_hang_that_ends(machine: SimulatedMachine, nvml: Ask) -> None:
    machine.fault("nvml.hung", call="nvmlDeviceGetName", ms=30)
    started = time.monotonic()
    assert nvml(gpu0("nvmlDeviceGetName")) == DEFAULTS["name"]
    assert time.monotonic() - started >= 0.03


def test_a_crash(machine: SimulatedMachine, nvml: Ask) -> None:
    machine.fault("nvml.crash", call="nvmlDeviceGetCount_v2")
    with pytest.raises(CrashedError) as crash:
        nvml(lambda n: n.nvmlDeviceGetCount())
    assert crash.value.args == (signal.SIGSEGV,)


def test_latency_of_all_calls_or_of_one(machine: SimulatedMachine, nvml: Ask) -> None:
    def seconds(n: Any) -> Any:
        started = time.monotonic()
        n.nvmlDeviceGetCount()
        count = time.monotonic() - started
        n.nvmlSystemGetDriverVersion()
        return count, time.monotonic() - started - count

    machine.fault("nvml.slow", us=30000)
    assert min(nvml(seconds)) >= 0.03
    machine.fault("nvml.slow", us=30000, call="nvmlDeviceGetCount_v2")
    count, _ = nvml(seconds)
    assert count >= 0.03


def test_calls_before_init_and_without_a_state_file(
    machine: SimulatedMachine, tmp_path: Path, library: Path
) -> None:
    bare = tmp_path / "bare" / nvml_library.NAME
    bare.parent.mkdir()
    bare.write_bytes(library.read_bytes())
    assert ask_nvml(bare, lambda n: "started") == "DriverNotLoaded"

    def after_the_end(n: Any) -> Any:
        n.nvmlShutdown()
        return n.nvmlDeviceGetCount()

    path = machine.root / "usr/lib/x86_64-linux-gnu" / nvml_library.NAME
    assert ask_nvml(path, after_the_end) == "Uninitialized"


def test_the_environment_can_name_the_state_file(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "other.ini"
    state.write_text("[system]\ncount=3\n")
    monkeypatch.setenv("NVML_DOUBLE_STATE", str(state))
    assert ask_nvml(library, lambda n: n.nvmlDeviceGetCount()) == 3


def test_threads_and_rewriting_do_not_disturb_each_other(machine: SimulatedMachine, nvml: Ask) -> None:
    """Eight threads ask while the file is replaced: each answer is one of the two that were written."""

    def hammer(n: Any) -> Any:
        handle, wrong, rounds = n.nvmlDeviceGetHandleByIndex(0), [], 300

        def ask() -> None:
            seen = {n.nvmlDeviceGetTemperature(handle, 0) for _ in range(rounds)}
            wrong.extend(seen - {31, 90})

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for number in range(20):
            write_state(machine.root, f"[gpu0]\ntemperature={(31, 90)[number % 2]}")
        for thread in threads:
            thread.join()
        return wrong

    assert nvml(hammer) == []


def test_garbage_in_the_state_file_is_no_crash(machine: SimulatedMachine, nvml: Ask) -> None:
    noise = "[\n]=\n=\n[gpu0\n" + "x" * 5000 + "=" + "y" * 5000 + "\n[gpu0]\ntemperature=\n" + "\0\0=1\n"
    path = machine.root / STATE_FILE
    path.write_text(noise + path.read_text() + noise)
    assert nvml(lambda n: n.nvmlDeviceGetCount()) == 8
    assert nvml(gpu0("nvmlDeviceGetTemperature", 0)) == 0


def test_every_exported_call_is_one_that_the_binding_knows(library: Path) -> None:
    import pynvml

    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True
    ).stdout
    exported = {line.split()[-1] for line in symbols.splitlines() if " T " in line}
    known = set(re.findall(r'"(nvml\w+)"', Path(pynvml.__file__).read_text()))
    assert "nvmlDeviceGetCount_v2" in exported
    assert exported - known <= {"nvmlInit_v2"}
    assert len(exported) > 85


def test_a_broken_compiler_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'no such header' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin:/bin")
    with pytest.raises(RequirementError, match="no such header"):
        nvml_library.build(tmp_path / "cache")
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(RequirementError, match="apt-get install"):
        nvml_library.build(tmp_path / "cache")
