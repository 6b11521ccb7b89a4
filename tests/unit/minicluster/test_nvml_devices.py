"""How the NVML double tells devices apart: handles, processes, MIG devices, events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from .nvml_questions import Ask, write_state

if TYPE_CHECKING:
    from minicluster.simulated import SimulatedMachine


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
