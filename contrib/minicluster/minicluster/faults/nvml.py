"""Trouble with the driver's library as a whole: hanging, missing, mismatched, crashing, slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minicluster.faults.registry import Fault, Values, gpu_of, register

if TYPE_CHECKING:
    from minicluster.machine.model import Machine


def _hung(machine: Machine, device: str, values: Values) -> None:
    machine.nvml[f"hang.{values['call']}"] = values["ms"]


def _no_driver(machine: Machine, device: str, values: Values) -> None:
    machine.driver_loaded = False


def _no_library(machine: Machine, device: str, values: Values) -> None:
    machine.nvml["ret.nvmlInitWithFlags"] = "12"


def _mismatch(machine: Machine, device: str, values: Values) -> None:
    machine.library_version = values["library"]
    machine.nvml["ret.nvmlInitWithFlags"] = "18"


def _crash(machine: Machine, device: str, values: Values) -> None:
    machine.nvml[f"crash.{values['call']}"] = "1"


def _slow(machine: Machine, device: str, values: Values) -> None:
    key = f"latency.{values['call']}" if values["call"] else "latency_us"
    machine.nvml[key] = values["us"]


def _returns(machine: Machine, device: str, values: Values) -> None:
    gpu_of(machine, device).nvml[f"ret.{values['call']}"] = values["code"]


def _value(machine: Machine, device: str, values: Values) -> None:
    gpu_of(machine, device).nvml[values["key"]] = values["value"]


def _start_faults(check: str) -> list[Fault]:
    """The library does not start."""
    about = "driver and library differ: nvmlInit returns 18"
    return [
        Fault(f"{check}.no_driver", "", "no driver loaded: nvmlInit returns 9", apply=_no_driver),
        Fault(f"{check}.no_library", "", "nvmlInit returns 12", apply=_no_library),
        Fault(f"{check}.mismatch", "", about, {"library": "550.144.03"}, _mismatch),
    ]


for fault in (
    Fault(
        "nvml.hung",
        "",
        "a call never returns (call=* is every call)",
        {"call": "nvmlDeviceGetHandleByIndex_v2", "ms": "forever"},
        _hung,
    ),
    *_start_faults("nvml"),
    *_start_faults("gpu_count"),  # under that name the product judges them
    Fault(
        "nvml.crash",
        "",
        "a call ends the process with a segmentation fault",
        {"call": "nvmlDeviceGetCount_v2"},
        _crash,
    ),
    Fault("nvml.slow", "", "calls take longer (one of them with call=)", {"us": "20000", "call": ""}, _slow),
    Fault(
        "nvml.returns",
        "gpu",
        "one call about one GPU returns a code (999: unknown error)",
        {"call": "nvmlDeviceGetTemperature", "code": "999"},
        _returns,
    ),
    Fault(
        "nvml.value",
        "gpu",
        "any key of the NVML double for one GPU (N/A: not supported)",
        {"key": "temperature", "value": "N/A"},
        _value,
    ),
):
    register(fault)
