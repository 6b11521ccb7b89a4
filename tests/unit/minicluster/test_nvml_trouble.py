"""Calls to the NVML double that are slow, hang, crash, or come too early."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from minicluster import nvml_library
from minicluster.machine.gpu import DEFAULTS, LIBRARY_FOLDER

from .conftest import CrashedError, HungError, ask_nvml
from .nvml_questions import Ask, gpu0, write_state

if TYPE_CHECKING:
    from pathlib import Path

    from minicluster.simulated import SimulatedMachine


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


def test_latency_of_all_calls(machine: SimulatedMachine, nvml: Ask) -> None:
    def seconds(n: Any) -> Any:
        started = time.monotonic()
        n.nvmlDeviceGetCount()
        count = time.monotonic() - started
        n.nvmlSystemGetDriverVersion()
        return count, time.monotonic() - started - count

    machine.fault("nvml.slow", us=30000)
    assert min(nvml(seconds)) >= 0.03


def test_latency_of_one_call(machine: SimulatedMachine, nvml: Ask) -> None:
    """The others answer long before the hour that this one takes."""
    machine.fault("nvml.slow", us=3_600_000_000, call="nvmlDeviceGetCount_v2")
    assert nvml(lambda n: n.nvmlSystemGetDriverVersion()) == "550.127.08"
    with pytest.raises(HungError):
        nvml(lambda n: n.nvmlDeviceGetCount(), patience=0.5)
    write_state(machine.root, "[system]\nlatency_us=3600000000\nlatency.nvmlInitWithFlags=0\n"
                "latency.nvmlDeviceGetCount_v2=1")  # fmt: skip
    assert nvml(lambda n: n.nvmlDeviceGetCount()) == 8


def test_the_last_call_meets_trouble_too(machine: SimulatedMachine, nvml: Ask) -> None:
    write_state(machine.root, "[system]\nret.nvmlShutdown=999\nret.nvmlEventSetFree=999")
    assert nvml(lambda n: n.nvmlShutdown()) == "Unknown"
    assert nvml(lambda n: n.nvmlEventSetFree(n.nvmlEventSetCreate())) == "Unknown"
    machine.fault("nvml.hung", call="nvmlShutdown")
    with pytest.raises(HungError):
        nvml(lambda n: n.nvmlShutdown(), patience=0.5)


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

    path = machine.root / LIBRARY_FOLDER / nvml_library.NAME
    assert ask_nvml(path, after_the_end) == "Uninitialized"
