"""The PCIe link of every GPU: width always, generation only under load, replays by their rate."""

from __future__ import annotations

from slurm_guard.core import gpus
from slurm_guard.core.check import Check, Fault, passed, skipped, warned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from slurm_guard.core.expectation import Expectation
    from slurm_guard.core.outcome import Finding

_READINGS = ("pcie_width", "pcie_width_max", "pcie_gen", "pcie_gen_max", "pcie_replay")
_WIDTHS = (1, 2, 4, 8, 12, 16, 32)
_GENERATIONS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0, 7: 128.0}  # GT/s per lane
_IDLE = 0x1


class GpuPcie(Check):
    """See the module's docstring.

    `replays_per_minute`: None takes DCGM's limit, 0.06 per minute for each Gbit/s of the link at its best:
    8 for 16 lanes of generation 3, 16 for generation 4, 31 for generation 5.
    """

    name = "gpu_pcie"
    probe = "nvml"
    tier = "WARN"
    params = {"replays_per_minute": None}
    metrics = {"gpu_pcie_width": "lanes", "gpu_pcie_generation": "gen"}
    remedy = "Watch it; `lspci -vv` shows the link, `dmesg | grep AER` its errors."
    faults = {
        "width": Fault(
            "DRAIN_REBOOT",
            "The PCIe link has fewer lanes than GPU and slot can do: a fault at any load.",
            remedy="Reboot the node; if it comes back, reseat the GPU or its riser.",
        ),
        "generation": Fault(
            "DRAIN",
            "The PCIe link is slower than GPU and slot can do, under load.",
            remedy="Measure the copy bandwidth; retrain the link by a reboot, then reseat the GPU.",
        ),
        "replay": Fault("WARN", "The PCIe link repeats packets unusually often."),
    }

    def judge(self, nvml: Any, params: Any, expect: Expectation) -> Iterator[Finding]:
        """Yield findings on each readable GPU."""
        yield from gpus.not_judged(nvml, expect)
        for gpu in gpus.readable(nvml):
            yield from gpus.unread(gpu, *_READINGS)
            yield _width(gpu, expect)
            yield _generation(gpu, expect)
            yield from _replay(gpu, params, expect)


def _width(gpu: Any, expect: Expectation) -> Finding:
    """Against the reference of the node class, else against what device and slot can do."""
    width, most = gpu["values"].get("pcie_width"), gpu["values"].get("pcie_width_max")
    if width is None:
        return skipped(f"{gpus.name(gpu)}: no PCIe link width", **gpus.where(gpu))
    if width not in _WIDTHS or (most is not None and most not in _WIDTHS):
        return gpus.garbage(gpu, "pcie_width", f"{width} of {most}", "a number of lanes")
    at = gpus.where(gpu)
    return gpus.named(
        gpu, expect("gpu_pcie_width", width, "lanes", fault="width", fail=most, below=True, **at)
    )


def _generation(gpu: Any, expect: Expectation) -> Finding:
    """An idle GPU lowers the generation to save power, so it is judged at work only."""
    values, at = gpu["values"], gpus.where(gpu)
    generation, most = values.get("pcie_gen"), values.get("pcie_gen_max")
    if generation is None or most is None:
        return skipped(f"{gpus.name(gpu)}: no PCIe generation", **at)
    if generation not in _GENERATIONS or most not in _GENERATIONS:
        return gpus.garbage(gpu, "pcie_gen", f"{generation} of {most}", "a PCIe generation")
    if generation < most and not _is_busy(values):
        message = (
            f"{gpus.name(gpu)}: generation {generation} of {most} is normal for a GPU that is not at work"
        )
        return skipped(message, **at)
    metric = "gpu_pcie_generation"
    found = expect(metric, generation, "gen", fault="generation", fail=most, below=True, **at)
    return gpus.named(gpu, found)


def _is_busy(values: Any) -> bool:
    """True if the GPU is known to be in its highest performance state and does not call itself idle."""
    reasons = values.get("clocks_event_reasons")
    return values.get("performance_state") == 0 and reasons is not None and not reasons & _IDLE


def _replay(gpu: Any, params: Any, expect: Expectation) -> Iterator[Finding]:
    label, values = gpus.name(gpu), gpu["values"]
    grown = expect.growth("gpu_pcie_replay", values.get("pcie_replay"), label)
    limit = params["replays_per_minute"]
    if limit is None:
        limit = _limit(values)
    if grown is None or limit is None:
        return
    minutes = max(1.0, grown.seconds / 60)
    at = gpus.where(gpu)
    at.update(metric="gpu_pcie_replay", value=round(grown.delta / minutes, 2), unit="1/min")
    if grown.delta > limit * minutes:
        message = f"{label}: {grown.delta / minutes:.0f} PCIe replays per minute, at most {limit:g} expected"
        yield warned(message, code="replay", **at)
    else:
        yield passed(**at)


def _limit(values: Any) -> float | None:
    """DCGM's limit per minute, from the best that this link can do."""
    speed, lanes = _GENERATIONS.get(values.get("pcie_gen_max")), values.get("pcie_width_max")
    if speed is None or lanes not in _WIDTHS:
        return None
    return float(-(-speed * lanes * 0.06 // 1))
