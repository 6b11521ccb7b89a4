"""GPU facts from NVML, by NVIDIA's own binding nvidia-ml-py; at most about 40 calls per GPU.

The binding is imported here, in the forked child, and its library is loaded by path. A GPU that cannot be
read does not keep the others from being read.
"""

from __future__ import annotations

import os

from slurm_guard.probes import nvml_calls as calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.outcome import Facts
    from slurm_guard.core.paths import Places

GROUP = "nvml"
LIBRARY = "libnvidia-ml.so.1"

_FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib")
_STATES = {9: "no_driver", 12: "no_library", 18: "mismatch"}
_NO_INSTANCE = 0xFFFFFFFF
_LARGEST = 1 << 16


def read(places: Places, request: Facts) -> dict[str, Any]:
    """What NVML says about the driver and every GPU.

    `state`: `ok`, `no_library`, `no_driver`, `mismatch` or `error`, with NVML's `code` and the `error` in
    words; `binding` is False where nvidia-ml-py itself is missing (an incomplete installation of the guard,
    not a fault of the node); `library_named` is True where the plan names the library; `kernel_version` is
    the loaded kernel module's, None without one.
    `gpus`: one entry per GPU that the driver counts: `index`, `minor`, `uuid`, `pci`, `name`, `serial`,
    `error` (None, or why it could not be read), `values` (temperatures in C, power in mW, memory in bytes),
    `na` (names without a value here), `errors` ({name: why}), `mig`, `processes` (None: not supported).
    """
    facts: dict[str, Any] = {"state": "error", "error": "", "code": 0, "binding": True}
    facts.update(driver_version="", nvml_version="", count=0, gpus=[])
    facts["kernel_version"] = _kernel_version(places)
    facts["library_named"] = bool(request.get("nvml_library"))
    nvml = _binding(request.get("python_path") or [])
    if nvml is None:
        facts.update(
            state="no_library", binding=False, error="the Python package nvidia-ml-py is not installed"
        )
        return facts
    facts["library"] = _library(places, request.get("nvml_library"))
    try:
        _load(nvml, facts["library"])
        nvml.nvmlInit()
        _read_system(nvml, facts)
    except Exception as error:
        _explain(facts, error)
        return facts
    facts["state"] = "ok"
    facts["gpus"] = [_read_gpu(nvml, index, places) for index in range(facts["count"])]
    _number_the_nameless(facts["gpus"])
    return facts  # without nvmlShutdown: the child ends now, and a sick driver may hang in it


def _binding(python_path: list[str]) -> Any:
    """The module pynvml, or None."""
    import sys

    sys.path.extend(folder for folder in python_path if folder not in sys.path)
    try:
        import pynvml
    except ImportError:
        return None
    return pynvml


def _library(places: Places, named: str | None) -> str:
    """The path to load: the plan's, else the first usual place, else the loader's own search (on `/` only)."""
    if named:
        return places.library(named) or ""
    for folder in _FOLDERS:
        path = places.below(f"{folder}/{LIBRARY}")
        if os.path.exists(path):
            return path
    return LIBRARY if places.root == "/" else places.below(f"{_FOLDERS[0]}/{LIBRARY}")


def _load(nvml: Any, path: str) -> None:
    """Load the library by path, where the binding would only search. Raises OSError."""
    import ctypes

    nvml.nvmlLib = ctypes.CDLL(path)


def _explain(facts: dict[str, Any], error: Exception) -> None:
    """Why NVML could not be started, as a state."""
    if isinstance(error, OSError):
        facts.update(state="no_library", error=str(error))
        return
    code = calls.code_of(error)
    state = "error" if code == -1 else _STATES.get(code, "error")
    facts.update(state=state, code=code, error=f"{calls.word(code)}: {error}")


def _read_system(nvml: Any, facts: dict[str, Any]) -> None:
    facts["count"] = nvml.nvmlDeviceGetCount()
    for name, function in (
        ("driver_version", "SystemGetDriverVersion"),
        ("nvml_version", "SystemGetNVMLVersion"),
    ):
        try:
            facts[name] = getattr(nvml, f"nvml{function}")()
        except Exception as error:
            facts["error"] = f"{name}: {calls.word(calls.code_of(error))}"


def _kernel_version(places: Places) -> str | None:
    """The version of the loaded kernel module, from its own file in /proc; None where there is none."""
    text = _text(places.below("proc/driver/nvidia/version"))
    if text is None:
        return None
    words = text.partition("\n")[0].split()
    versions = (word for word in words if word[:1].isdigit() and "." in word)
    return next(versions, "unknown")


def _text(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return file.read(_LARGEST).decode("utf-8", "replace")
    except OSError:
        return None


def _read_gpu(nvml: Any, index: int, places: Places) -> dict[str, Any]:
    gpu: dict[str, Any] = dict.fromkeys(
        ("uuid", "pci", "name", "serial", "minor", "error", "mig", "processes")
    )
    gpu.update(index=index, values={}, na=[], errors={})
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except Exception as error:
        gpu["error"] = calls.word(calls.code_of(error))
        return gpu
    reader = _Reader(nvml, handle, gpu)
    reader.identity()
    reader.readings(calls.READINGS)
    reader.structures()
    reader.fields()
    reader.mig()
    if "remap_pending" in gpu["na"] and not (gpu["mig"] or {}).get("devices"):
        reader.readings(calls.RETIRED_PAGES)
    reader.processes(places)
    return gpu


def _number_the_nameless(gpus: list[dict[str, Any]]) -> None:
    """Give GPUs without a minor number the numbers that are left over, where that is unambiguous."""
    known = {gpu["minor"] for gpu in gpus if gpu["minor"] is not None}
    nameless = [gpu for gpu in gpus if gpu["minor"] is None]
    free = [number for number in range(len(gpus)) if number not in known]
    if known and len(free) == len(nameless):
        for gpu, number in zip(nameless, free):
            gpu["minor"] = number


class _Reader:
    """Fills the facts of one GPU; once the driver calls it lost or in need of a reset, it asks no more."""

    def __init__(self, nvml: Any, handle: Any, gpu: dict[str, Any]) -> None:
        self.nvml = nvml
        self.handle = handle
        self.gpu = gpu

    def ask(self, names: tuple[str, ...], *options: tuple[Any, ...]) -> Any:
        """The answer of the first known call; None, with the names filed, where there is none."""
        if self.gpu["error"]:
            return None
        try:
            return calls.first_known(self.nvml, self.handle, options)
        except Exception as error:
            self.file(names, calls.code_of(error))
            return None

    def file(self, names: tuple[str, ...], code: int) -> None:
        """Note that these names have no value, and why."""
        why = calls.word(code)
        if code in calls.UNSUPPORTED:
            self.gpu["na"] += names
            return
        self.gpu["errors"].update(dict.fromkeys(names, why))
        if why in (calls.LOST, calls.RESET_REQUIRED):
            self.gpu["error"] = why

    def identity(self) -> None:
        """UUID, PCI address, minor number, model, serial number."""
        for name, symbol in (
            ("uuid", "UUID"),
            ("name", "Name"),
            ("serial", "Serial"),
            ("minor", "MinorNumber"),
        ):
            self.gpu[name] = self.ask((name,), (f"nvmlDeviceGet{symbol}",))
        pci = self.ask(("pci",), ("nvmlDeviceGetPciInfo",))
        if pci is not None:
            self.gpu["pci"] = f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"

    def readings(self, table: tuple[tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]], ...]) -> None:
        """Everything that one call answers with numbers or a text; a list counts as its length."""
        values = self.gpu["values"]
        for names, options in table:
            answer = self.ask(names, *options)
            if answer is None:
                continue
            if len(names) > 1:
                values.update(zip(names, answer))
            else:
                values[names[0]] = len(answer) if isinstance(answer, list) else answer

    def structures(self) -> None:
        """Memory, the remapper's histogram and the SRAM flag, which come in structures."""
        values, nvml = self.gpu["values"], self.nvml
        version = getattr(nvml, "nvmlMemory_v2", 0x02000028)
        names = ("memory_total", "memory_used", "memory_reserved")
        memory = self.ask(names, ("nvmlDeviceGetMemoryInfo", version), ("nvmlDeviceGetMemoryInfo",))
        if memory is not None:
            values["memory_total"], values["memory_used"] = memory.total, memory.used
            if hasattr(memory, "reserved"):
                values["memory_reserved"] = memory.reserved
            else:
                self.gpu["na"].append("memory_reserved")
        banks = self.ask(("remap_histogram",), ("nvmlDeviceGetRowRemapperHistogram",))
        if banks is not None:
            values["remap_histogram"] = [banks.max, banks.high, banks.partial, banks.low, banks.none]
        self._sram_flag()

    def _sram_flag(self) -> None:
        make = getattr(self.nvml, "c_nvmlEccSramErrorStatus_v1_t", None)
        if make is None:
            self.gpu["na"].append("sram_threshold")
            return
        status = make()
        status.version = getattr(self.nvml, "nvmlEccSramErrorStatus_v1", 0x1000068)
        if self.ask(("sram_threshold",), ("nvmlDeviceGetSramEccErrorStatus", _pointer(status))) is not None:
            self.gpu["values"]["sram_threshold"] = int(status.bThresholdExceeded)

    def fields(self) -> None:
        """The field values, all in one call."""
        names = tuple(calls.FIELDS)
        answers = self.ask(names, ("nvmlDeviceGetFieldValues", list(calls.FIELDS.values())))
        for name, answer in zip(names, answers or ()):
            if answer.nvmlReturn:
                self.file((name,), answer.nvmlReturn)
            elif 0 <= answer.valueType < len(calls.FIELD_MEMBERS):
                self.gpu["values"][name] = getattr(answer.value, calls.FIELD_MEMBERS[answer.valueType])
            else:
                self.file((name,), -1)

    def mig(self) -> None:
        """MIG mode and, where it is on, the MIG devices."""
        modes = self.ask(("mig",), ("nvmlDeviceGetMigMode",))
        if modes is None:
            return
        self.gpu["mig"] = {"current": modes[0], "pending": modes[1], "devices": []}
        if not modes[0]:
            return
        for position in range(self.ask(("mig",), ("nvmlDeviceGetMaxMigDeviceCount",)) or 0):
            device = self._mig_device(position)
            if device:
                self.gpu["mig"]["devices"].append(device)

    def _mig_device(self, position: int) -> dict[str, Any] | None:
        nvml = self.nvml
        try:
            handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(self.handle, position)
            device = {"uuid": nvml.nvmlDeviceGetUUID(handle)}
            device["gi"] = nvml.nvmlDeviceGetGpuInstanceId(handle)
            device["ci"] = nvml.nvmlDeviceGetComputeInstanceId(handle)
        except Exception as error:
            if calls.code_of(error) not in calls.UNSUPPORTED:
                self.file((f"mig{position}",), calls.code_of(error))
            return None
        return device

    def processes(self, places: Places) -> None:
        """Who uses the GPU: pid, memory in bytes (None: not known), owner and name where it still lives."""
        found: dict[int, dict[str, Any]] = {}
        answered = False
        for options in calls.PROCESS_LISTS:
            listed = self.ask(("processes",), *options)
            answered = answered or listed is not None
            for one in listed or ():
                entry = found.setdefault(one.pid, {"pid": one.pid, "memory": None, "gi": _instance(one)})
                entry["memory"] = max(entry["memory"] or 0, one.usedGpuMemory or 0) or None
        if answered:
            for entry in found.values():
                entry.update(_owner(places, entry["pid"]))
            self.gpu["processes"] = list(found.values())


def _pointer(structure: Any) -> Any:
    import ctypes

    return ctypes.byref(structure)


def _instance(process: Any) -> int | None:
    """The GPU instance (MIG) that a process runs in; None outside MIG."""
    number = getattr(process, "gpuInstanceId", None)
    return None if number in (None, _NO_INSTANCE) else number


def _owner(places: Places, pid: int) -> dict[str, Any]:
    """Owner and name of a process; `alive` is False where it is gone. Never reads its command line."""
    text = _text(places.below(f"proc/{pid}/status"))
    if text is None:
        return {"alive": False, "uid": None, "name": ""}
    lines = dict(line.partition(":")[::2] for line in text.splitlines())
    uid = lines.get("Uid", "").split()[:1]
    number = int(uid[0]) if uid and uid[0].isdigit() else None
    return {"alive": True, "uid": number, "name": lines.get("Name", "").strip()}
