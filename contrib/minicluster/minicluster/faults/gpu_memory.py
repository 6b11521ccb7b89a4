"""Faults of GPU memory: ECC errors, row remapping, retired pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minicluster.faults.registry import Apply, Fault, Lines, Values, gpu_of, register
from minicluster.faults.xid import xid_line

if TYPE_CHECKING:
    from minicluster.machine.kmsg import Line
    from minicluster.machine.model import Machine

DRAM, SRAM = "2", "7"  # NVML's memory locations
WITH_LINE = {"kernel_line": "yes"}


def _nvml(**keys: str) -> Apply:
    """Sets keys of the NVML double; `{setting}` in a value is filled in. A `__` in a name is a dot."""

    def apply(machine: Machine, device: str, values: Values) -> None:
        filled = {key.replace("__", "."): text.format(**values) for key, text in keys.items()}
        gpu_of(machine, device).nvml.update(filled)

    return apply


def _xid(code: int) -> Lines:
    """The driver's line, unless `kernel_line` is something else than yes."""

    def lines(machine: Machine, device: str, values: Values) -> list[Line]:
        return [xid_line(gpu_of(machine, device), code)] if values["kernel_line"] == "yes" else []

    return lines


def _uncorrected(machine: Machine, device: str, values: Values) -> None:
    location = {"dram": DRAM, "sram": SRAM}.get(values["location"], values["location"])
    for counter in ("volatile", "aggregate"):
        gpu_of(machine, device).nvml |= {
            f"ecc.{counter}.uncorrected": values["count"],
            f"ecc.{counter}.uncorrected.{location}": values["count"],
        }


def _corrected(machine: Machine, device: str, values: Values) -> None:
    for counter in ("volatile", "aggregate"):
        gpu_of(machine, device).nvml |= {
            f"ecc.{counter}.corrected": values["count"],
            f"ecc.{counter}.corrected.{DRAM}": values["count"],
        }


def _sram_threshold(machine: Machine, device: str, values: Values) -> None:
    gpu_of(machine, device).nvml |= {
        "sram_ecc.threshold_exceeded": "1",
        "sram_ecc.aggregate.uncorrected_parity": values["count"],
        "sram_ecc.bucket.sm": values["count"],
        f"ecc.aggregate.uncorrected.{SRAM}": values["count"],
    }


for fault in (
    Fault(
        "gpu_ecc.uncorrected",
        "gpu",
        "uncorrected ECC errors (volatile and aggregate), Xid 48",
        {"count": "1", "location": "dram", **WITH_LINE},
        _uncorrected,
        _xid(48),
    ),
    Fault("gpu_ecc.corrected", "gpu", "many corrected ECC errors", {"count": "60000000"}, _corrected),
    Fault("gpu_ecc.sram_threshold", "gpu", "SRAM error threshold exceeded", {"count": "4"}, _sram_threshold),
    Fault("gpu_ecc.mode", "gpu", "ECC is off", apply=_nvml(ecc_mode="0", ecc_mode_pending="0")),
    Fault("gpu_ecc.mode_pending", "gpu", "ECC will be off after a reset", apply=_nvml(ecc_mode_pending="0")),
    Fault(
        "gpu_remap.pending",
        "gpu",
        "row remapping waits for a reset, Xid 63",
        {"rows": "1", **WITH_LINE},
        _nvml(remap_pending="1", remap_uncorrected="{rows}"),
        _xid(63),
    ),
    Fault(
        "gpu_remap.failure",
        "gpu",
        "row remapping failed, Xid 64",
        {"rows": "8", **WITH_LINE},
        _nvml(remap_failure="1", remap_uncorrected="{rows}", remap_banks__max="639", remap_banks__none="1"),
        _xid(64),
    ),
    Fault("gpu_remap.rows", "gpu", "many rows remapped", {"rows": "520"}, _nvml(remap_uncorrected="{rows}")),
    Fault(
        "gpu_remap.banks",
        "gpu",
        "banks with few spare rows left",
        {"low": "1", "none": "0"},
        _nvml(remap_banks__low="{low}", remap_banks__none="{none}", remap_banks__max="639"),
    ),
):
    register(fault)
