"""Reads the facts of one GPU, and of the processes on it. Used by the `nvml` probe."""

from __future__ import annotations

from slurm_guard.probes import nvml_calls as calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.paths import Places

#: What is None until it is read.
EMPTY = ("uuid", "pci", "name", "serial", "minor", "error", "mig", "processes")
_IDENTITY = (("uuid", "UUID"), ("name", "Name"), ("serial", "Serial"), ("minor", "MinorNumber"))
_NO_INSTANCE = 0xFFFFFFFF
_LARGEST = 1 << 16


def read_gpu(nvml: Any, index: int, places: Places) -> dict[str, Any]:
    """One entry of the probe's `gpus`; never raises, `error` says why a GPU could not be read."""
    gpu: dict[str, Any] = dict.fromkeys(EMPTY)
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
        for name, symbol in _IDENTITY:
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
                entry.update(owner_of(places, entry["pid"]))
            self.gpu["processes"] = list(found.values())


def _pointer(structure: Any) -> Any:
    import ctypes

    return ctypes.byref(structure)


def _instance(process: Any) -> int | None:
    """The GPU instance (MIG) that a process runs in; None outside MIG."""
    number = getattr(process, "gpuInstanceId", None)
    return None if number in (None, _NO_INSTANCE) else number


def owner_of(places: Places, pid: int) -> dict[str, Any]:
    """Owner and name of a process; `alive` is False where it is gone. Never reads its command line."""
    text = read_text(places.below(f"proc/{pid}/status"))
    if text is None:
        return {"alive": False, "uid": None, "name": ""}
    lines = dict(line.partition(":")[::2] for line in text.splitlines())
    uid = lines.get("Uid", "").split()[:1]
    number = int(uid[0]) if uid and uid[0].isdigit() else None
    return {"alive": True, "uid": number, "name": lines.get("Name", "").strip()}


def read_text(path: str) -> str | None:
    """A small file's text, bounded; None where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(_LARGEST).decode("utf-8", "replace")
    except OSError:
        return None
