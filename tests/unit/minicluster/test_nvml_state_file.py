"""The state file of the NVML double: changed at any time, by anybody, to anything."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from minicluster.machine.gpu import STATE_FILE

from .conftest import ask_nvml
from .nvml_questions import Ask, gpu0, write_state

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from minicluster.simulated import SimulatedMachine


def test_a_change_reaches_a_running_process(machine: SimulatedMachine, nvml: Ask) -> None:
    def look(n: Any) -> Any:
        handle = n.nvmlDeviceGetHandleByIndex(4)
        before = n.nvmlDeviceGetTemperature(handle, 0)
        machine.fault("gpu_temperature.high", "gpu4", celsius=96)
        during = n.nvmlDeviceGetTemperature(handle, 0)
        machine.clear()
        return before, during, n.nvmlDeviceGetTemperature(handle, 0)

    assert nvml(look) == (31, 96, 31)


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
