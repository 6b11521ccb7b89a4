"""How long a hook takes when a mount or NVML hangs: its deadline, and not much more."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from bench import roots
from bench.hooks import HOOKS, hook_command
from bench.measure import run_once
from bench.table import Row
from slurm_guard.core.plan import DEADLINES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.setting import Setting
    from minicluster.simulated import SimulatedMachine

FAULTS = (("fs_mounts.hung", "/scratch", "hung mount"), ("nvml.hung", None, "hung NVML"))


@contextmanager
def broken(folder: Path, name: str, device: str | None) -> Iterator[SimulatedMachine]:
    """A machine with the fault, mended and unmounted at the end."""
    machine = roots.gpu_host(folder)
    roots.write_plan(machine.root, roots.gpu_profile(), nvml_library=roots.nvml_library(machine.root))
    machine.fault(name, device)
    try:
        yield machine
    finally:
        machine.clear()
        machine.free_mounts()


def rows(setting: Setting) -> list[Row]:
    """Every hook twice: the second run of a boot knows what hung in the first and need not wait for it."""
    found = []
    for name, device, words in FAULTS:
        for hook in HOOKS:
            with broken(setting.folder / f"{name}-{hook}", name, device) as machine:
                found.append(hung_row(setting, machine, hook, words))
    return found


def hung_row(setting: Setting, machine: SimulatedMachine, hook: str, words: str) -> Row:
    """Wall time until the hook itself returned, for two runs in a row."""
    argv, env = hook_command(setting, hook, machine.root)
    first, second = (run_until_answer(argv, env) for _ in range(2))
    limit = DEADLINES[hook] + 1
    return Row(
        f"{hook}, {words}",
        f"<= {limit:.0f} s",
        "NHC: watchdog, then drains",
        f"{first[0]:.1f} s, next run {second[0]:.1f} s",
        holds=max(first[0], second[0]) <= limit,
        note=f"exit codes {first[1]} and {second[1]}; {roots.judged(roots.last_record(machine.root))}",
    )


def run_until_answer(argv: list[str], env: dict[str, str]) -> tuple[float, int]:
    """Seconds and exit code; children that the hook had to leave behind are not waited for."""
    cost = run_once(argv, env, orphans=False)
    return cost.wall, cost.status
