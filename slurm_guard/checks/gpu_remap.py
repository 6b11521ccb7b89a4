"""Repair of GPU memory: remapped rows since Ampere, retired pages before it."""

from __future__ import annotations

from slurm_guard.core import gpus
from slurm_guard.core.check import Check, Fault, failed, passed, skipped, warned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from slurm_guard.core.expectation import Expectation
    from slurm_guard.core.outcome import Finding

_READINGS = (
    "remap_pending",
    "remap_failure",
    "remap_histogram",
    "retired_pending",
    "retired_sbe",
    "retired_dbe",
)


class GpuRemap(Check):
    """See the module's docstring.

    `rows`: remapped rows after uncorrectable errors from which on an RMA is worth planning (DCGM: 512).
    `pages`: retired pages from which on the table counts as full (DCGM: 63 of 64).
    """

    name = "gpu_remap"
    probe = "nvml"
    tier = "WARN"
    remedy = "Reset the GPU when idle: `nvidia-smi --gpu-reset -i GPU`."
    params = {"rows": 512, "pages": 63}
    metrics = {"gpu_remapped_rows": "rows", "gpu_retired_pages": "pages"}
    faults = {
        "pending": Fault("DRAIN_RESET", "A bad memory row will be replaced by the next reset."),
        "failure": Fault(
            "DRAIN_RMA",
            "A bad memory row could not be replaced.",
            remedy="Open an RMA: the GPU has no spare row left for this bank.",
            sure=True,
            refuse=True,
        ),
        "rows": Fault(
            "WARN",
            "Many memory rows have been replaced.",
            remedy="Plan an RMA; `nvidia-smi -q -d ROW_REMAPPER`.",
        ),
        "banks": Fault(
            "WARN",
            "Some memory banks have few or no spare rows left.",
            remedy="Plan an RMA: the next bad row of such a bank cannot be replaced.",
        ),
        "page_pending": Fault("DRAIN_RESET", "A bad memory page will be retired by the next reset."),
        "pages": Fault(
            "DRAIN_RMA", "The table of retired memory pages is full.", remedy="Open an RMA.", refuse=True
        ),
    }

    def judge(self, nvml: Any, params: Any, expect: Expectation) -> Iterator[Finding]:
        """Yield findings on each readable GPU."""
        yield from gpus.not_judged(nvml, expect)
        for gpu in gpus.readable(nvml):
            yield from gpus.unread(gpu, *_READINGS)
            if not any(reading in gpu["values"] for reading in _READINGS):
                yield skipped(_no_answer(gpu), **gpus.where(gpu))
                continue
            found = [*_rows(gpu, params, expect), *_banks(gpu), *_pages(gpu, params, expect)]
            yield from found or [passed(**gpus.where(gpu))]


def _no_answer(gpu: Any) -> str:
    if (gpu.mig or {}).get("devices"):
        return f"{gpus.name(gpu)} is cut into MIG devices: the driver does not tell"
    return f"{gpus.name(gpu)} neither remaps rows nor retires pages"


def _rows(gpu: Any, params: Any, expect: Expectation) -> Iterator[Finding]:
    label, at, values = gpus.name(gpu), gpus.where(gpu), gpu["values"]
    if values.get("remap_failure"):
        yield failed(f"{label}: row remapping failed, no spare row is left", code="failure", **at)
    if values.get("remap_pending"):
        yield failed(f"{label}: a row remapping waits for a GPU reset", code="pending", **at)
    rows = values.get("remap_uncorrectable")
    if rows is not None and params["rows"] is not None:
        found = expect("gpu_remapped_rows", rows, "rows", fault="rows", warn=params["rows"] - 1, **at)
        yield from [gpus.named(gpu, found)] if found.status != "pass" else []


def _banks(gpu: Any) -> Iterator[Finding]:
    """The histogram counts banks by the spare rows that are left: max, high, partial, low, none."""
    histogram = gpu["values"].get("remap_histogram")
    if histogram is None:
        return
    if len(histogram) != 5:
        yield gpus.garbage(gpu, "remap_histogram", histogram, "five counts")
        return
    low, none = histogram[3:]
    if low or none:
        message = f"{gpus.name(gpu)}: {none} memory banks have no spare row left, {low} have few"
        yield warned(message, code="banks", metric="gpu_remap_banks", value=low + none, **gpus.where(gpu))


def _pages(gpu: Any, params: Any, expect: Expectation) -> Iterator[Finding]:
    label, at, values = gpus.name(gpu), gpus.where(gpu), gpu["values"]
    if values.get("retired_pending"):
        yield failed(f"{label}: a page retirement waits for a GPU reset", code="page_pending", **at)
    counts = [values[name] for name in ("retired_sbe", "retired_dbe") if name in values]
    if counts and params["pages"] is not None:
        found = expect(
            "gpu_retired_pages", sum(counts), "pages", fault="pages", fail=params["pages"] - 1, **at
        )
        yield from [gpus.named(gpu, found)] if found.status != "pass" else []
