"""Faults of the host itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minicluster.faults.registry import Fault, Values, register
from minicluster.machine.model import DIMM_KIB

if TYPE_CHECKING:
    from minicluster.machine.model import Machine


def _memory_low(machine: Machine, device: str, values: Values) -> None:
    machine.memory_kib -= int(values["dimms"]) * DIMM_KIB


register(Fault("memory_size.low", "", "memory modules of 64 GiB missing", {"dimms": "2"}, _memory_low))
