"""GPU memory errors: uncorrected and corrected ECC counts by their growth, the SRAM flag, and ECC's mode."""

from __future__ import annotations

from slurm_guard.core import gpus
from slurm_guard.core.check import Check, Fault, failed, passed, skipped, warned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from slurm_guard.core.expectation import Expectation
    from slurm_guard.core.outcome import Finding

_READINGS = ("ecc_mode", "ecc_uncorrected", "ecc_corrected", "sram_threshold")


class GpuEcc(Check):
    """See the module's docstring.

    `mode`: the ECC mode that is expected, True, False or None for either. `corrected_per_hour`: more
    corrected errors than this are worth a look; an interval of less than an hour has a whole hour's worth.
    """

    name = "gpu_ecc"
    probe = "nvml"
    tier = "WARN"
    remedy = "Watch the GPU; `nvidia-smi -q -d ECC` shows where the errors are."
    params = {"mode": True, "corrected_per_hour": 10_000}
    faults = {
        "uncorrected": Fault(
            "DRAIN_RESET",
            "Uncorrected memory errors happened: results of the job that ran may be wrong.",
            remedy="Reset the GPU when idle; look at gpu_remap; on repeat run `dcgmi diag -r 3`.",
            event=True,
            refuse=True,
        ),
        "uncorrected_before": Fault(
            "WARN",
            "Uncorrected memory errors happened after the driver's start, before the guard's first sample.",
            remedy="Nobody knows which job saw them; reset the GPU when idle.",
        ),
        "corrected": Fault("WARN", "Corrected memory errors come unusually fast."),
        "sram_threshold": Fault(
            "DRAIN_RMA",
            "The GPU's on-chip memory had more uncorrected errors than NVIDIA accepts.",
            remedy="Open an RMA: the flag does not clear.",
            sure=True,
            refuse=True,
        ),
        "mode": Fault(
            "WARN",
            "ECC is not switched as expected.",
            remedy="`nvidia-smi --ecc-config=1`, then reset the GPU; or set `mode` of this check.",
        ),
        "mode_pending": Fault(
            "WARN", "A change of the ECC mode waits for a reset.", remedy="Reset the GPU when idle."
        ),
    }

    def judge(self, nvml: Any, params: Any, expect: Expectation) -> Iterator[Finding]:
        """Yield findings on each readable GPU."""
        yield from gpus.not_judged(nvml, expect)
        for gpu in gpus.readable(nvml):
            yield from gpus.unread(gpu, *_READINGS)
            if not any(reading in gpu["values"] for reading in _READINGS):
                yield skipped(f"{gpus.name(gpu)} has no ECC", **gpus.where(gpu))
                continue
            found = [*_mode(gpu, params), *_flag(gpu), *_uncorrected(gpu, expect)]
            found += _corrected(gpu, params, expect)
            yield from found or [passed(**gpus.where(gpu))]


def _mode(gpu: Any, params: Any) -> Iterator[Finding]:
    mode, pending = gpu["values"].get("ecc_mode"), gpu["values"].get("ecc_pending")
    if mode is None:
        return
    label, at = gpus.name(gpu), gpus.where(gpu)
    if params["mode"] is not None and bool(mode) != params["mode"]:
        words = ("off", "on") if params["mode"] else ("on", "off")
        yield warned(f"{label}: ECC is {words[0]}, expected {words[1]}", code="mode", **at)
    if pending is not None and pending != mode:
        word = "on" if pending else "off"
        yield warned(f"{label}: ECC will be switched {word} by the next reset", code="mode_pending", **at)


def _flag(gpu: Any) -> Iterator[Finding]:
    if gpu["values"].get("sram_threshold"):
        message = f"{gpus.name(gpu)}: the SRAM error threshold is exceeded"
        yield failed(message, code="sram_threshold", metric="gpu_sram_threshold", value=1, **gpus.where(gpu))


def _uncorrected(gpu: Any, expect: Expectation) -> Iterator[Finding]:
    """Growth is a fault; what was there before the first sample is history."""
    label, at, count = gpus.name(gpu), gpus.where(gpu), gpu["values"].get("ecc_uncorrected")
    grown = expect.growth("gpu_ecc_uncorrected", count, label)
    at.update(metric="gpu_ecc_uncorrected", value=count)
    if grown is not None and grown.delta:
        sram = gpu["values"].get("sram_uncorrected")
        place = f", {sram} of all in SRAM" if sram else ""
        message = (
            f"{label}: {grown.delta:g} new uncorrected ECC errors, {count} since the driver started{place}"
        )
        yield failed(message, code="uncorrected", **at)
    elif grown is None and count:
        message = f"{label}: {count} uncorrected ECC errors since the driver started"
        message += ", all before the guard's first sample"
        yield warned(message, code="uncorrected_before", **at)


def _corrected(gpu: Any, params: Any, expect: Expectation) -> Iterator[Finding]:
    label, count = gpus.name(gpu), gpu["values"].get("ecc_corrected")
    grown = expect.growth("gpu_ecc_corrected", count, label)
    if grown is None or params["corrected_per_hour"] is None:
        return
    hours = max(1.0, grown.seconds / 3600)
    allowed = params["corrected_per_hour"] * hours
    if grown.delta > allowed:
        message = f"{label}: {grown.delta:g} corrected ECC errors in {grown.seconds / 3600:.1f} h"
        yield warned(
            f"{message}, at most {allowed:g} expected",
            code="corrected",
            metric="gpu_ecc_corrected",
            value=grown.delta,
            **gpus.where(gpu),
        )
