"""GPU facts from NVML, by NVIDIA's own binding nvidia-ml-py; at most about 40 calls per GPU.

The binding is imported here, in the forked child, and its library is loaded by path. A GPU that cannot be
read does not keep the others from being read.
"""

from __future__ import annotations

import os
import sys

from slurm_guard.probes import nvml_calls as calls
from slurm_guard.probes.nvml_gpu import read_gpu, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.outcome import Facts
    from slurm_guard.core.paths import Places

GROUP = "nvml"
LIBRARY = "libnvidia-ml.so.1"
_MOST_GPUS = 256
_UTIL = "ctypes.util"

_FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib")
_FIRST_NAMESPACE = "pid:[4026531836]"  # the kernel's fixed number of the host's PID namespace
_STATES = {9: "no_driver", 12: "no_library", 18: "mismatch"}


def read(places: Places, request: Facts) -> dict[str, Any]:
    """What NVML says about the driver and every GPU.

    `state`: `ok`, `no_library`, `no_driver`, `mismatch` or `error`, with NVML's `code` and the `error` in
    words; `driver_version`, `nvml_version`, `count` (GPUs), `library` (the path to load); `binding` is False
    where nvidia-ml-py itself is missing (an incomplete installation of the guard, not a fault of the node);
    `library_named` is True where the plan names the library; `kernel_version` is
    the loaded kernel module's, None without one; `private_pids` is True in a PID namespace of our own,
    where other processes cannot be seen.
    `gpus`: one entry per GPU that the driver counts: `index`, `minor`, `uuid`, `pci`, `name`, `serial`,
    `error` (None, or why it could not be read), `values` (temperatures in C, power in mW, memory in bytes),
    `na` (names without a value here), `errors` ({name: why}), `mig`, `processes` (None: not supported).
    """
    facts: dict[str, Any] = {"state": "error", "error": "", "code": 0, "binding": True}
    facts.update(driver_version="", nvml_version="", count=0, gpus=[])
    facts["kernel_version"] = _kernel_version(places)
    facts["private_pids"] = _has_private_pids(places)
    facts["library_named"] = bool(request.get("nvml_library"))
    facts["library"] = _library(places, request.get("nvml_library"))
    try:
        nvml = _start(facts, request.get("python_path") or [])
        facts["count"] = _count(nvml)
    except ImportError:
        facts.update(state="no_library", binding=False, error="nvidia-ml-py is not installed")
        return facts
    except Exception as error:
        _explain(facts, error)
        facts["nvml_version"] = _file_version(facts["library"])
        return facts
    _read_versions(nvml, facts)
    facts["state"] = "ok"
    facts["gpus"] = [read_gpu(nvml, index, places) for index in range(facts["count"])]
    _number_the_nameless(facts["gpus"])
    return facts  # without nvmlShutdown: the child ends now, and a sick driver may hang in it


def _library(places: Places, named: str | None) -> str:
    """The path to load: the plan's, else a usual place, else (on `/` only) the loader's own search."""
    if named:
        return places.library(named) or ""
    for folder in _FOLDERS:
        path = places.below(f"{folder}/{LIBRARY}")
        if os.path.exists(path):
            return path
    return LIBRARY if places.root == "/" else places.below(f"{_FOLDERS[0]}/{LIBRARY}")


def _start(facts: dict[str, Any], python_path: list[str]) -> Any:
    """The binding, on the library that lies at this path, initialised.

    The library comes first: a node without one is spared the binding, which is the dearer of the two.
    Raises OSError without the library, ImportError without the binding, or the binding's own errors.
    """
    import ctypes

    library = ctypes.CDLL(facts["library"])
    sys.path.extend(folder for folder in python_path if folder not in sys.path)
    pynvml = _binding()
    pynvml.nvmlLib = library  # the binding would only search for it
    pynvml.nvmlInit()
    return pynvml


def _binding() -> Any:
    """The binding, imported without `ctypes.util`, which it only needs to search on Windows.

    That module loads tempfile, shutil, subprocess and a dozen more: 8 ms in every run on every node. So an
    empty one stands in for it while the binding is imported, and is gone afterwards.
    """
    stand_in: Any = type(sys)(_UTIL)
    stand_in.find_library = lambda _name: None
    found = sys.modules.setdefault(_UTIL, stand_in)
    try:
        import pynvml
    finally:
        if found is stand_in:
            del sys.modules[_UTIL]
    return pynvml


def _file_version(path: str) -> str:
    """The version in the name of the file behind the library's link; an empty text if there is none."""
    version = os.path.basename(os.path.realpath(path)).partition(".so.")[2]
    return version if "." in version else ""


def _count(nvml: Any) -> int:
    """How many GPUs the driver counts. Raises ValueError if that is no sane number."""
    count = int(nvml.nvmlDeviceGetCount())
    if count > _MOST_GPUS:
        raise ValueError(f"NVML counts {count} GPUs, more than {_MOST_GPUS}")
    return count


def _explain(facts: dict[str, Any], error: Exception) -> None:
    """Why NVML could not be started, as a state."""
    if isinstance(error, OSError):
        facts.update(state="no_library", error=str(error))
        return
    code = calls.code_of(error)
    state = "error" if code == -1 else _STATES.get(code, "error")
    facts.update(state=state, code=code, error=f"{calls.word(code)}: {error}")


def _read_versions(nvml: Any, facts: dict[str, Any]) -> None:
    try:
        facts["driver_version"] = nvml.nvmlSystemGetDriverVersion()
        facts["nvml_version"] = nvml.nvmlSystemGetNVMLVersion()
    except Exception as error:
        facts["error"] = f"versions: {calls.word(calls.code_of(error))}"


def _kernel_version(places: Places) -> str | None:
    """The version of the loaded kernel module, from its own file in /proc; None where there is none."""
    text = read_text(places.below("proc/driver/nvidia/version"))
    if text is None:
        return None
    words = text.partition("\n")[0].split()
    versions = (word for word in words if word[:1].isdigit() and "." in word)
    return next(versions, "unknown")


def _has_private_pids(places: Places) -> bool:
    try:
        return os.readlink(places.below("proc/self/ns/pid")) != _FIRST_NAMESPACE
    except OSError:
        return False


def _number_the_nameless(gpus: list[dict[str, Any]]) -> None:
    """Give GPUs without a minor number the numbers that are left over, where that is unambiguous."""
    known = {gpu["minor"] for gpu in gpus if gpu["minor"] is not None}
    nameless = [gpu for gpu in gpus if gpu["minor"] is None]
    free = [number for number in range(len(gpus)) if number not in known]
    if known and len(free) == len(nameless):
        for gpu, number in zip(nameless, free):
            gpu["minor"] = number
