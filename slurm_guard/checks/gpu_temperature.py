"""Heat: core and memory temperature, and whether the hardware had to slow the clocks down."""

from __future__ import annotations

from slurm_guard.core import gpus
from slurm_guard.core.check import Check, Fault, failed, passed, skipped, warned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from slurm_guard.core.expectation import Expectation
    from slurm_guard.core.outcome import Finding

_READINGS = ("temperature_c", "memory_temperature_c", "clocks_event_reasons")
# Bits of NVML's clock event reasons that mean trouble; idle, power cap, sync boost and the like are normal.
_HW_SLOWDOWN, _SW_THERMAL, _HW_THERMAL, _POWER_BRAKE = 0x08, 0x20, 0x40, 0x80


class GpuTemperature(Check):
    """See the module's docstring. A temperature alone never drains.

    `warn_c`, `fail_c`, `memory_warn_c`, `memory_fail_c`: limits in C for GPUs that do not name their own.
    """

    name = "gpu_temperature"
    probe = "nvml"
    tier = "WARN"
    params = {"warn_c": 85, "fail_c": 90, "memory_warn_c": 95, "memory_fail_c": 105}
    rising = (("warn_c", "fail_c"), ("memory_warn_c", "memory_fail_c"))
    metrics = {"gpu_temperature": "C", "gpu_memory_temperature": "C"}
    remedy = "Check air flow, fans, coolant and the room's temperature; compare with the other GPUs."
    faults = {
        "core": Fault("WARN", "The GPU is hotter than it should be."),
        "memory": Fault("WARN", "The GPU's memory is hotter than it should be."),
        "slowdown": Fault("DRAIN", "The hardware slows the GPU down because of heat."),
        "hw_slowdown": Fault("WARN", "The hardware slows the GPU down, and not because of heat."),
        "sw_slowdown": Fault("WARN", "The driver slows the GPU down because of heat."),
        "power_brake": Fault(
            "WARN",
            "The GPU is slowed down from outside: power supply or rack limit.",
            remedy="Look at power supplies, PDUs and the rack's power cap: this is the facility's.",
        ),
    }

    def judge(self, nvml: Any, params: Any, expect: Expectation) -> Iterator[Finding]:
        """Yield findings on each readable GPU."""
        yield from gpus.not_judged(nvml, expect)
        for gpu in gpus.readable(nvml):
            yield from gpus.unread(gpu, *_READINGS)
            heat = [_core(gpu, params, expect), _memory(gpu, params, expect)]
            yield from heat
            yield from _reasons(gpu, any(one.status in ("warn", "fail") for one in heat))


def _core(gpu: Any, params: Any, expect: Expectation) -> Finding:
    values = gpu["values"]
    warn = _own(values, "gpu_max_c", params["warn_c"])
    fail = max(warn, _own(values, "slowdown_c", params["fail_c"]))
    return _judge(gpu, "temperature_c", "core", expect, (warn, fail))


def _memory(gpu: Any, params: Any, expect: Expectation) -> Finding:
    warn = _own(gpu["values"], "mem_max_c", params["memory_warn_c"])
    return _judge(gpu, "memory_temperature_c", "memory", expect, (warn, max(warn, params["memory_fail_c"])))


def _own(values: Any, name: str, otherwise: float) -> float:
    """A threshold of the GPU's own, unless it is no sane temperature (some firmwares answer 0)."""
    limit = values.get(name)
    return float(limit) if limit is not None and 40 <= limit <= 130 else otherwise


def _judge(gpu: Any, reading: str, fault: str, expect: Expectation, limits: tuple[float, float]) -> Finding:
    metric = "gpu_temperature" if fault == "core" else "gpu_memory_temperature"
    celsius = gpu["values"].get(reading)
    if celsius is None:
        return skipped(f"{gpus.name(gpu)}: no {reading}", **gpus.where(gpu))
    if not 0 < celsius < 150:
        return gpus.garbage(gpu, reading, celsius, "a temperature in C")
    warn, fail = limits
    found = expect(metric, celsius, "C", fault=fault, warn=warn, fail=fail, **gpus.where(gpu))
    return gpus.named(gpu, found)


def _reasons(gpu: Any, is_hot: bool) -> Iterator[Finding]:
    """Why the clocks are low, where that is not normal."""
    reasons = gpu["values"].get("clocks_event_reasons")
    if reasons is None:
        return
    label, at = gpus.name(gpu), gpus.where(gpu)
    at.update(metric="gpu_clocks_event_reasons")
    bits = f"clock event reasons {reasons:#x}"
    if reasons & _HW_THERMAL or (reasons & _HW_SLOWDOWN and is_hot):
        yield failed(f"{label}: slowed down by the hardware because of heat, {bits}", code="slowdown", **at)
    elif reasons & _POWER_BRAKE:
        yield warned(f"{label}: power brake from outside, {bits}", code="power_brake", **at)
    elif reasons & _HW_SLOWDOWN:
        yield warned(f"{label}: slowed down by the hardware without heat, {bits}", code="hw_slowdown", **at)
    elif reasons & _SW_THERMAL:
        yield warned(f"{label}: slowed down by the driver because of heat, {bits}", code="sw_slowdown", **at)
    else:
        yield passed(**at)
