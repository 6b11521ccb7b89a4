"""Which NVML calls make which facts, and what NVML's return codes mean. Used by the `nvml` probe.

Sources: NVIDIA's NVML API reference and the binding nvidia-ml-py. A reading lists its calls from the one to
prefer to the oldest; the next one is tried where the library or the driver does not know the first.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOST, RESET_REQUIRED, UNKNOWN = "GpuIsLost", "ResetRequired", "Unknown"

#: Return codes that mean "this GPU, driver or library has no such value": never an error, never 0.
UNSUPPORTED = frozenset({2, 3, 6, 13, 21, 22, 25, 26})
MISSING_SYMBOL = 13

#: Words for the other return codes, as they stand in facts.
WORDS = {
    1: "Uninitialized",
    4: "NoPermission",
    7: "InsufficientSize",
    8: "InsufficientPower",
    9: "DriverNotLoaded",
    10: "Timeout",
    11: "IrqIssue",
    12: "LibraryNotFound",
    14: "CorruptedInforom",
    15: LOST,
    16: RESET_REQUIRED,
    17: "OperatingSystem",
    18: "LibRmVersionMismatch",
    19: "InUse",
    20: "Memory",
    23: "InsufficientResources",
    27: "NotReady",
    28: "GpuNotFound",
    999: UNKNOWN,
}

#: (fact names, calls); a call is (symbol, arguments after the handle). Several names take a tuple apart.
READINGS: tuple[tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]], ...] = (
    (("temperature_c",), (("nvmlDeviceGetTemperatureV", 0), ("nvmlDeviceGetTemperature", 0))),
    (("shutdown_c",), (("nvmlDeviceGetTemperatureThreshold", 0),)),
    (("slowdown_c",), (("nvmlDeviceGetTemperatureThreshold", 1),)),
    (("mem_max_c",), (("nvmlDeviceGetTemperatureThreshold", 2),)),
    (("gpu_max_c",), (("nvmlDeviceGetTemperatureThreshold", 3),)),
    (("margin_c",), (("nvmlDeviceGetMarginTemperature",),)),
    (("power_mw",), (("nvmlDeviceGetPowerUsage",),)),
    (("fan_percent",), (("nvmlDeviceGetFanSpeed",),)),
    (
        ("clocks_event_reasons",),
        (("nvmlDeviceGetCurrentClocksEventReasons",), ("nvmlDeviceGetCurrentClocksThrottleReasons",)),
    ),
    (("performance_state",), (("nvmlDeviceGetPerformanceState",), ("nvmlDeviceGetPowerState",))),
    (("pcie_width",), (("nvmlDeviceGetCurrPcieLinkWidth",),)),
    (("pcie_width_max",), (("nvmlDeviceGetMaxPcieLinkWidth",),)),
    (("pcie_gen",), (("nvmlDeviceGetCurrPcieLinkGeneration",),)),
    (("pcie_gen_max",), (("nvmlDeviceGetMaxPcieLinkGeneration",),)),
    (("pcie_replay",), (("nvmlDeviceGetPcieReplayCounter",),)),
    (("ecc_mode", "ecc_pending"), (("nvmlDeviceGetEccMode",),)),
    (("ecc_uncorrected",), (("nvmlDeviceGetTotalEccErrors", 1, 0),)),
    (("ecc_corrected",), (("nvmlDeviceGetTotalEccErrors", 0, 0),)),
    (("sram_uncorrected",), (("nvmlDeviceGetMemoryErrorCounter", 1, 0, 7),)),
    (
        ("remap_correctable", "remap_uncorrectable", "remap_pending", "remap_failure"),
        (("nvmlDeviceGetRemappedRows",),),
    ),
    (("persistence",), (("nvmlDeviceGetPersistenceMode",),)),
    (("vbios",), (("nvmlDeviceGetVbiosVersion",),)),
)

#: Facts of GPUs before Ampere, asked for only where there is no row remapping.
RETIRED_PAGES: tuple[tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]], ...] = (
    (("retired_sbe",), (("nvmlDeviceGetRetiredPages", 0),)),
    (("retired_dbe",), (("nvmlDeviceGetRetiredPages", 1),)),
    (("retired_pending",), (("nvmlDeviceGetRetiredPagesPendingStatus",),)),
)

#: Field values, all in one call; each carries its own return code.
FIELDS = {"memory_temperature_c": 82, "recovery_action": 230}
#: NVML's value types in order: double, unsigned, unsigned long, u. long long, long long, int, u. short.
FIELD_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")

PROCESS_LISTS = (
    (("nvmlDeviceGetComputeRunningProcesses_v3",), ("nvmlDeviceGetComputeRunningProcesses_v2",)),
    (("nvmlDeviceGetGraphicsRunningProcesses_v3",), ("nvmlDeviceGetGraphicsRunningProcesses_v2",)),
    (("nvmlDeviceGetMPSComputeRunningProcesses_v3",), ("nvmlDeviceGetMPSComputeRunningProcesses_v2",)),
)


def code_of(error: BaseException) -> int:
    """The NVML return code of an exception; a function that the binding lacks counts as a missing symbol."""
    if isinstance(error, AttributeError):
        return MISSING_SYMBOL
    code = getattr(error, "value", None)
    return code if isinstance(code, int) else -1


def word(code: int) -> str:
    """The name of a return code: `GpuIsLost`, `Error<code>`; `Garbage` (-1) for an unreadable answer."""
    return "Garbage" if code == -1 else WORDS.get(code, f"Error{code}")


def first_known(nvml: Any, handle: Any, calls: tuple[tuple[Any, ...], ...]) -> Any:
    """The answer of the first call that is known here. Raises the last call's error."""
    (symbol, *arguments), others = calls[0], calls[1:]
    try:
        return getattr(nvml, symbol)(handle, *arguments)
    except Exception as error:
        if not others or code_of(error) not in UNSUPPORTED:
            raise
    return first_known(nvml, handle, others)
