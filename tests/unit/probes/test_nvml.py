"""The NVML probe over the C double: identity, values, what is not there, one sick GPU among healthy ones."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicluster import nvml_library
from slurm_guard.core.outcome import Facts
from slurm_guard.core.paths import Places
from slurm_guard.probes import nvml, nvml_calls, nvml_gpu

if TYPE_CHECKING:
    from pathlib import Path

SYSTEM = {"driver_version": "535.183.06", "nvml_version": "12.535.183.06", "count": "2"}
GPU = {
    "name": "NVIDIA A100-SXM4-40GB",
    "memory_total": str(40 << 30),
    "memory_reserved": str(400 << 20),
    "memory_used": str(5 << 20),
    "temperature": "41",
    "power_mw": "55123",
    "clocks_event_reasons": "0x1",
    "performance_state": "0",
    "pcie_width": "16",
    "pcie_width_max": "16",
    "pcie_generation": "4",
    "pcie_generation_max": "4",
    "pcie_replay": "7",
    "ecc_mode": "1",
    "ecc.volatile.corrected": "0",
    "ecc.volatile.uncorrected": "0",
    "sram_ecc.threshold_exceeded": "0",
    "remap_corrected": "2",
    "remap_uncorrected": "1",
    "remap_banks.max": "640",
    "mig": "0",
    "field.82": "44",
    "field.230": "0",
}
EACH = {
    f"gpu{i}": {
        "uuid": f"GPU-7a31{i}0c2-40de-11ef-9bb1-5f00aa1204{i}7",
        "bus_id": f"0000000{i}:C{i}:00.0",
        "minor_number": str(i),
    }
    for i in range(4)
}

State = dict[str, dict[str, str]]
Read = Callable[..., Facts]


def state(**sections: dict[str, str]) -> State:
    """The healthy state of two GPUs, changed: `system=…, gpu=…, gpu1=…`."""
    names = ["system", "gpu", *EACH, *(name for name in sections if name not in EACH)]
    base: State = {"system": SYSTEM, "gpu": GPU, **EACH}
    return {name: {**base.get(name, {}), **sections.get(name, {})} for name in dict.fromkeys(names)}


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads the facts of a node with this NVML state, in a forked child."""
    library = nvml_library.install(nvml_library.build(), tmp_path)

    def reader(sections: State, **request: Any) -> Facts:
        lines = [
            f"[{name}]\n" + "".join(f"{k}={v}\n" for k, v in keys.items()) for name, keys in sections.items()
        ]
        library.with_name("nvml-state.ini").write_text("\n".join(lines))
        return in_child(lambda: nvml.read(Places(str(tmp_path)), Facts(request)))

    return reader


def in_child(work: Callable[[], Any]) -> Facts:
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with os.fdopen(write_end, "w") as pipe:
                pipe.write(json.dumps(work()))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        text = pipe.read()
    assert os.waitpid(pid, 0)[1] == 0
    found = json.loads(text, object_hook=Facts)
    assert isinstance(found, Facts)
    return found


def test_a_healthy_node(read: Read) -> None:
    facts = read(state())
    assert (facts.state, facts.error, facts.count, facts.driver_version) == ("ok", "", 2, "535.183.06")
    first = facts.gpus[0]
    assert (first.uuid, first.pci, first.minor, first.error) == (
        EACH["gpu0"]["uuid"],
        "0000:c0:00.0",
        0,
        None,
    )
    assert facts.gpus[1].pci == "0001:c1:00.0"
    assert first["values"]["temperature_c"] == 41
    assert first["values"]["power_mw"] == 55123
    assert first["values"]["memory_reserved"] == 400 << 20
    assert first["values"]["memory_temperature_c"] == 44
    assert first["values"]["remap_histogram"] == [640, 0, 0, 0, 0]
    assert (first["values"]["remap_correctable"], first["values"]["remap_uncorrectable"]) == (2, 1)
    assert (first.errors, first.processes) == ({}, [])


def test_what_is_not_supported_is_never_zero(read: Read) -> None:
    first = read(state(gpu={"pcie_replay": "N/A", "field.82": "N/A", "temperature": "N/A"})).gpus[0]
    for name in ("pcie_replay", "memory_temperature_c", "temperature_c", "serial", "slowdown_c"):
        assert name in first.na
        assert name not in first["values"]
    assert first.errors == {}


def test_a_value_and_its_absence_exclude_each_other(read: Read) -> None:
    for gpu in read(state(gpu1={"ret.nvmlDeviceGetRemappedRows": "999", "ecc_mode": "0"})).gpus:
        named = [*gpu["values"], *(name for name in gpu.na if name not in nvml_gpu.EMPTY), *gpu.errors]
        assert len(named) == len(set(named))


@pytest.mark.parametrize(
    ("keys", "error"), [({"lost": "1"}, "GpuIsLost"), ({"reset_required": "1"}, "ResetRequired")]
)
def test_one_sick_gpu_does_not_hide_the_other(read: Read, keys: dict[str, str], error: str) -> None:
    facts = read(state(gpu0=keys))
    assert [gpu.error for gpu in facts.gpus] == [error, None]
    assert facts.gpus[1]["values"]["temperature_c"] == 41
    assert (facts.gpus[0].minor, facts.gpus[0].pci) == (0, None)  # the number that is left over


def test_a_gpu_lost_half_way_is_asked_no_more(read: Read) -> None:
    first = read(state(gpu0={"ret.nvmlDeviceGetPowerUsage": "15"})).gpus[0]
    assert (first.error, first.uuid) == ("GpuIsLost", EACH["gpu0"]["uuid"])
    assert "temperature_c" in first["values"]
    assert "pcie_width" not in first["values"]
    assert first.processes is None


def test_an_unknown_error_of_one_value_is_an_error_of_that_value(read: Read) -> None:
    first = read(state(gpu0={"ret.nvmlDeviceGetPowerUsage": "999"})).gpus[0]
    assert (first.error, first.errors) == (None, {"power_mw": "Unknown"})


@pytest.mark.parametrize(
    ("code", "expected"),
    [("9", "no_driver"), ("12", "no_library"), ("18", "mismatch"), ("4", "error"), ("999", "error")],
)
def test_nvml_that_does_not_start(read: Read, code: str, expected: str) -> None:
    facts = read(state(system={"ret.nvmlInitWithFlags": code}))
    assert (facts.state, facts.code, facts.gpus) == (expected, int(code), [])
    assert facts.error


def test_a_mismatch_names_the_librarys_version(read: Read, tmp_path: Path) -> None:
    read(state())  # leaves the library there
    library = tmp_path / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    library.rename(library.with_name("libnvidia-ml.so.535.216.01"))
    library.symlink_to("libnvidia-ml.so.535.216.01")
    assert read(state(system={"ret.nvmlInitWithFlags": "18"})).nvml_version == "535.216.01"


@pytest.mark.parametrize(
    ("link", "private"), [("pid:[4026531836]", False), ("pid:[4026533001]", True), (None, False)]
)
def test_a_private_pid_namespace_is_told(read: Read, tmp_path: Path, link: str | None, private: bool) -> None:
    folder = tmp_path / "proc/self/ns"
    folder.mkdir(parents=True)
    if link:
        (folder / "pid").symlink_to(link)
    assert read(state()).private_pids is private


def test_counting_fails(read: Read) -> None:
    facts = read(state(system={"ret.nvmlDeviceGetCount_v2": "999"}))
    assert (facts.state, facts.code, facts.gpus) == ("error", 999, [])


def test_older_libraries_answer_older_calls(read: Read) -> None:
    missing = ("DeviceGetTemperatureV", "DeviceGetMemoryInfo_v2", "DeviceGetCurrentClocksEventReasons")
    missing += ("DeviceGetPerformanceState", "DeviceGetComputeRunningProcesses_v3")
    facts = read(
        state(
            system={f"ret.nvml{name}": "13" for name in missing}, gpu0={"compute_processes": "4001:1048576"}
        )
    )
    first = facts.gpus[0]
    assert first["values"]["temperature_c"] == 41
    assert first["values"]["clocks_event_reasons"] == 1
    assert first["values"]["memory_used"] == (400 << 20) + (5 << 20)
    assert "memory_reserved" in first.na
    assert [one.pid for one in first.processes] == [4001]


def test_before_ampere_retired_pages_are_asked_for(read: Read) -> None:
    keys = {"remap_corrected": "N/A", "remap_banks.max": "N/A", "mig": "N/A"}
    keys |= {"retired_pages.0": "3", "retired_pages.1": "0", "retired_pages_pending": "1"}
    values = read(state(gpu=keys)).gpus[0]["values"]
    assert (values["retired_sbe"], values["retired_dbe"], values["retired_pending"]) == (3, 0, 1)


def test_since_ampere_they_are_not(read: Read) -> None:
    first = read(state(gpu={"retired_pages.0": "3"})).gpus[0]
    assert "retired_sbe" not in first["values"]
    assert "retired_sbe" not in first.na


def test_mig_devices(read: Read) -> None:
    slices = {f"gpu0.mig{i}": {"uuid": f"MIG-00{i}", "gpu_instance_id": str(7 + i)} for i in range(2)}
    for keys in slices.values():
        keys["compute_instance_id"] = "0"
    first, second = read(state(gpu0={"mig": "1", "mig_count": "2", "mig_pending": "0"}, **slices)).gpus
    assert (first.mig.current, first.mig.pending) == (1, 0)
    assert first.mig.devices == [{"uuid": "MIG-000", "gi": 7, "ci": 0}, {"uuid": "MIG-001", "gi": 8, "ci": 0}]
    assert "remap_pending" in first.na
    assert second.mig == {"current": 0, "pending": 0, "devices": []}


def test_processes_have_owners(read: Read, tmp_path: Path) -> None:
    folder = tmp_path / "proc/512"
    folder.mkdir(parents=True)
    (folder / "status").write_text("Name:\tmy tool\nState:\tR (running)\nUid:\t4005\t0\t0\t0\n")
    keys = {"compute_processes": "512:1048576,777", "graphics_processes": "512:4096"}
    listed = {one.pid: one for one in read(state(gpu1=keys)).gpus[1].processes}
    assert listed[512] == {
        "pid": 512,
        "memory": 1 << 20,
        "gi": None,
        "alive": True,
        "uid": 4005,
        "name": "my tool",
    }
    assert listed[777] == {"pid": 777, "memory": None, "gi": None, "alive": False, "uid": None, "name": ""}


def test_processes_that_cannot_be_listed(read: Read) -> None:
    keys = dict.fromkeys(("compute_processes", "graphics_processes", "mps_processes"), "N/A")
    assert read(state(gpu=keys)).gpus[0].processes is None


def test_at_most_forty_calls_per_gpu(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    import pynvml

    asked: list[str] = []
    original = pynvml._nvmlGetFunctionPointer
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer", lambda name: asked.append(name) or original(name))
    read_gpu = nvml.read

    def counting(places: Places, request: Facts) -> dict[str, Any]:
        return {**read_gpu(places, request), "calls": len(asked)}

    monkeypatch.setattr(nvml, "read", counting)
    facts = read(state())
    assert facts.state == "ok"
    assert facts.calls <= 40 * facts.count


def test_the_library_of_the_plan_lies_below_the_root(read: Read, tmp_path: Path) -> None:
    facts = read(state(), nvml_library="/opt/other/libnvidia-ml.so.1")
    assert (facts.state, facts.library_named) == ("no_library", True)
    assert str(tmp_path) in facts.library


def test_without_a_library_the_binding_is_not_loaded(tmp_path: Path) -> None:
    def work() -> dict[str, Any]:
        sys.modules.pop("pynvml", None)
        facts = nvml.read(Places(str(tmp_path)), Facts())
        return {**facts, "loaded": "pynvml" in sys.modules}

    facts = in_child(work)
    assert (facts.state, facts.binding, facts.loaded, facts.kernel_version) == (
        "no_library",
        True,
        False,
        None,
    )


def test_without_the_binding_it_is_the_guards_own_problem(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)  # what an import of a missing module meets
    facts = read(state())
    assert (facts.state, facts.binding) == ("no_library", False)


def test_the_binding_is_found_on_the_plans_python_path(read: Read, tmp_path: Path) -> None:
    folder = tmp_path / "opt/python"
    folder.mkdir(parents=True)
    (folder / "pynvml.py").write_text("nvmlLib = None\ndef nvmlInit():\n    raise OSError('mine')\n")

    def work() -> dict[str, Any]:
        sys.modules.pop("pynvml", None)
        sys.path = [path for path in sys.path if "site-packages" not in path]
        return nvml.read(Places(str(tmp_path)), Facts(python_path=[str(folder)]))

    read(state())  # leaves the library there
    assert in_child(work).error == "mine"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.06  Wed Jun 26 06:46:07 UTC 2024\n",
            "535.183.06",
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n", "570.86.15"),
        ("\x00garbage", "unknown"),
        ("", "unknown"),
    ],
)
def test_the_kernel_modules_version(read: Read, tmp_path: Path, text: str, version: str) -> None:
    folder = tmp_path / "proc/driver/nvidia"
    folder.mkdir(parents=True)
    (folder / "version").write_text(text)
    assert read(state()).kernel_version == version


@given(st.binary(max_size=200))
def test_any_status_file_names_an_owner_or_none(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "proc/9"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "status").write_bytes(content)
    owner = nvml_gpu.owner_of(Places(str(tmp_path)), 9)
    assert owner["alive"] is True
    assert owner["uid"] is None or owner["uid"] >= 0


@given(st.lists(st.one_of(st.none(), st.integers(0, 7)), max_size=8))
def test_numbers_that_are_left_over_are_given_once(minors: list[int | None]) -> None:
    known = [number for number in minors if number is not None]
    gpus = [{"minor": number} for number in dict.fromkeys(known)] + [{"minor": None}] * minors.count(None)
    gpus = [dict(gpu) for gpu in gpus]
    nvml._number_the_nameless(gpus)
    given_numbers = [gpu["minor"] for gpu in gpus if gpu["minor"] is not None]
    assert len(given_numbers) == len(set(given_numbers))


@pytest.mark.parametrize(
    ("code", "word"), [(15, "GpuIsLost"), (999, "Unknown"), (-1, "Garbage"), (77, "Error77")]
)
def test_words_for_return_codes(code: int, word: str) -> None:
    assert nvml_calls.word(code) == word
