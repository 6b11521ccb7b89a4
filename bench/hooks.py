"""What a hook costs on a healthy node: CPU of the shim, the interpreter and every child, and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench import roots
from bench.measure import BARE_ENV, Series, alternate, bare_interpreter, peak_memory_mb
from bench.table import Row
from slurm_guard.core import check

if TYPE_CHECKING:
    from pathlib import Path

    from bench.setting import Setting

Command = tuple[list[str], dict[str, str]]

PLAIN_MS, GPU_MS, MEMORY_MB = 60, 100, 25
HOOKS = ("prolog", "epilog", "healthcheck")


def environment(hook: str) -> dict[str, str]:
    """What slurmd gives a hook: no PATH, and a healthcheck learns the node's name only."""
    env = {"SLURMD_NODENAME": roots.NODE}
    if hook == "healthcheck":
        return env
    job = {
        "SLURM_CLUSTER_NAME": "bench",
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_UID": "1000",
        "SLURM_JOB_USER": "ada",
        "SLURM_JOB_PARTITION": "gpu",
        "SLURM_JOB_GPUS": "0-7",
        "SLURM_NODELIST": roots.NODE,
        "SLURM_JOB_RESTART_COUNT": "0",
        "SLURM_SCRIPT_CONTEXT": f"{hook}_slurmd",
    }
    return {**env, **job, **({"SLURM_JOB_EXIT_CODE2": "0:0"} if hook == "epilog" else {})}


def hook_command(setting: Setting, hook: str, root: Path) -> Command:
    """The shim as slurmd would call it, on a simulated node."""
    return [setting.shim(hook), "--root", str(root)], environment(hook)


def rows(setting: Setting) -> list[Row]:
    """All three hooks on a plain host, then on one with eight GPUs."""
    plain = setting.folder / "plain"
    roots.plain_host(plain)
    size = roots.write_plan(plain, {"class": "plain"})
    gpus = roots.gpu_host(setting.folder).root
    settings: dict[str, Any] = {"nvml_library": roots.nvml_library(gpus)}
    roots.write_plan(gpus, roots.gpu_profile(), **settings)
    known = len(check.names())
    note = f"{known} checks (the budget is for 20), plan of {size // 1000} KB"
    return [
        *host_rows(setting, plain, "no GPU", PLAIN_MS, "three forks 47; NHC 103", note),
        *host_rows(setting, gpus, "8 simulated GPUs", GPU_MS, "78-91; gcm 600 per check", note),
    ]


def host_rows(setting: Setting, root: Path, host: str, budget: int, peer: str, note: str) -> list[Row]:
    """CPU and memory of each hook on one host, hooks and bare interpreter in turn."""
    commands: dict[str, Any] = {hook: hook_command(setting, hook, root) for hook in HOOKS}
    commands["bare"] = (bare_interpreter(setting.python), BARE_ENV)
    found = alternate(commands, setting.repetitions)
    note = f"{note}; last run: {roots.judged(roots.last_record(root))}"
    return [
        row
        for hook in HOOKS
        for row in hook_rows(hook, host, found[hook], found["bare"], (budget, peer, note), commands[hook])
    ]


def hook_rows(
    hook: str, host: str, series: Series, bare: Series, compared: tuple[int, str, str], command: Command
) -> list[Row]:
    """One row for CPU, one for memory."""
    budget, peer, note = compared
    together = max(peak_memory_mb(*command) for _ in range(3))
    codes = ", ".join(str(code) for code in sorted(series.statuses()))
    cpu, largest = series.cpu_ms(), series.rss_mb()
    return [
        Row(
            f"{hook}, {host}",
            f"<= {budget} ms CPU",
            peer,
            f"{cpu:.0f} ms CPU, {series.wall_ms():.0f} wall",
            f"{bare.cpu_ms():.0f} ms CPU, {bare.wall_ms():.0f} wall",
            holds=cpu <= budget,
            note=f"{note}; exit code {codes}",
        ),
        Row(
            f"{hook}, {host}, memory",
            f"<= {MEMORY_MB} MB",
            "-",
            f"{largest:.0f} MB RSS in one, {together:.0f} PSS in all",
            f"{bare.rss_mb():.0f} MB RSS",
            holds=max(largest, together) <= MEMORY_MB,
        ),
    ]
