"""What a fault is, and finding one by its name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from minicluster.errors import FaultError

if TYPE_CHECKING:
    from minicluster.machine.kmsg import Line
    from minicluster.machine.model import Gpu, Hca, Machine, Mount

Values = Mapping[str, str]
Apply = Callable[["Machine", str, Values], None]
Lines = Callable[["Machine", str, Values], "list[Line]"]


def no_change(machine: Machine, device: str, values: Values) -> None:
    """The model stays as it is (the fault is only a line of the kernel, or only a count)."""


def no_lines(machine: Machine, device: str, values: Values) -> list[Line]:
    """The kernel says nothing."""
    return []


@dataclass(frozen=True)
class Fault:
    """One fault, as changes to the model and lines of the kernel log.

    `apply` is carried out on every rendering while the fault is set. `counts` (counter → name of the
    setting that says how many) happen once per call, and stay until the next boot, as real counters do;
    so do the kernel's lines.
    """

    name: str
    device: str  # "gpu", "port", "hca", "mount" or "" (none)
    summary: str
    defaults: Values = field(default_factory=dict)
    apply: Apply = no_change
    lines: Lines = no_lines
    counts: Mapping[str, str] = field(default_factory=dict)

    def settings(self, given: Values) -> dict[str, str]:
        """Defaults with the given values. Raises FaultError for a setting that the fault doesn't have."""
        unknown = sorted(set(given) - set(self.defaults))
        if unknown:
            known = ", ".join(f"{key}={value}" for key, value in self.defaults.items()) or "none"
            raise FaultError(f"{self.name} has no setting {unknown[0]!r}; it has: {known}")
        return {**self.defaults, **given}


_faults: dict[str, Fault] = {}
_families: dict[str, Callable[[str], Fault | None]] = {}


def register(fault: Fault) -> None:
    """Make a fault known under its name."""
    _faults[fault.name] = fault


def register_family(prefix: str, make: Callable[[str], Fault | None]) -> None:
    """Names `prefix.CODE` that no single fault has: `make(code)` builds one, or None for a bad code."""
    _families[prefix] = make


def all_faults() -> list[Fault]:
    """Every single fault, by name."""
    return [_faults[name] for name in sorted(_faults)]


def find(name: str) -> Fault:
    """The fault of this name. Raises FaultError, naming similar ones."""
    if name in _faults:
        return _faults[name]
    prefix, _, code = name.partition(".")
    if prefix in _families and (made := _families[prefix](code)) is not None:
        return made
    near = difflib.get_close_matches(name, _faults, n=3, cutoff=0.4)
    hint = f"did you mean {', '.join(near)}?" if near else "`minicluster faults` lists them"
    raise FaultError(f"unknown fault {name!r}: {hint}")


def gpu_of(machine: Machine, device: str) -> Gpu:
    """The GPU called `gpuN`."""
    for gpu in machine.gpus:
        if gpu.name == device:
            return gpu
    raise _no_device(device, [gpu.name for gpu in machine.gpus])


def hca_of(machine: Machine, device: str) -> Hca:
    """The adapter called `mlx5_N`, or of the port `mlx5_N/1`."""
    for hca in machine.hcas:
        if device in (hca.name, hca.port):
            return hca
    raise _no_device(device, [hca.port for hca in machine.hcas])


def mount_of(machine: Machine, device: str) -> Mount:
    """The mount at this path."""
    for mount in machine.mounts:
        if mount.path == device:
            return mount
    raise _no_device(device, [mount.path for mount in machine.mounts])


FINDERS: Mapping[str, Callable[[Machine, str], object]] = {
    "gpu": gpu_of,
    "port": hca_of,
    "hca": hca_of,
    "mount": mount_of,
}


def check_device(fault: Fault, machine: Machine, device: str | None) -> str:
    """The device's name as the fault wants it ("" for none).

    Raises FaultError if it is missing or unknown.
    """
    if not fault.device:
        if device:
            raise FaultError(f"{fault.name} takes no device, got {device!r}")
        return ""
    if not device:
        example = {"gpu": "gpu0", "port": "mlx5_0/1", "hca": "mlx5_0", "mount": "/scratch"}[fault.device]
        raise FaultError(f"{fault.name} needs a device, such as {example}")
    FINDERS[fault.device](machine, device)
    return hca_of(machine, device).port if fault.device == "port" else device


def _no_device(device: str, known: list[str]) -> FaultError:
    return FaultError(f"no device {device!r} on this node; there are: {', '.join(known)}")
