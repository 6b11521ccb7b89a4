"""gpucm's `health_checks` and slurm_guard on one simulated node: the same kind of checks, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import roots
from bench.hooks import hook_command
from bench.measure import BARE_ENV, Series, alternate, bare_interpreter
from bench.setting import CHECKOUT
from bench.table import Row
from slurm_guard.core import check

if TYPE_CHECKING:
    from pathlib import Path

    from bench.setting import Setting

GCM = str(CHECKOUT / ".venv-peers/bin/health_checks")
GPU_CHECKS = {
    "gpu_num": ("--gpu_num", "8"),
    "gpu_temperature": ("--gpu_temperature_threshold", "90"),
    "ecc_uncorrected_volatile_total": (),
    "row_remap_failed": (),
}


def gcm(group: list[str], options: list[str], logs: Path) -> list[str]:
    """One call of health_checks as a prolog would make it."""
    return [GCM, *group, "--log-folder", str(logs), *options, "bench", "prolog"]


def peer_commands(logs: Path) -> dict[str, list[str]]:
    """What is asked of gpucm: one process per check, as its documentation has it, then four checks in one."""
    nvidia = ["check-nvidia-smi"]
    asked = {name: ["-c", name, *options] for name, options in GPU_CHECKS.items()}
    together = [word for words in asked.values() for word in words]
    mounted = ["-d", "/proc"]
    commands = {f"gcm {name}": gcm(nvidia, words, logs) for name, words in asked.items()}
    commands["gcm mounted-directory"] = gcm(["check-storage", "mounted-directory"], mounted, logs)
    commands["gcm, the four GPU checks in one process"] = gcm(nvidia, together, logs)
    return commands


def row(name: str, series: Series, bare: Series, note: str = "") -> Row:
    """CPU and wall of one command, beside the bare interpreter's."""
    statuses = ", ".join(str(status) for status in sorted(series.statuses()))
    return Row(
        name,
        "-",
        "-",
        f"{series.cpu_ms():.0f} ms CPU, {series.wall_ms():.0f} wall, {series.rss_mb():.0f} MB",
        f"{bare.cpu_ms():.0f} ms CPU",
        note=f"{note}exit code {statuses}",
    )


def rows(setting: Setting) -> list[Row]:
    """Peers first, then this guard's hook with all its checks on the same node."""
    root = roots.gpu_host(setting.folder).root
    library = roots.nvml_library(root)
    roots.write_plan(root, roots.gpu_profile(), nvml_library=library)
    logs = setting.folder / "logs"
    logs.mkdir()
    # gpucm takes the NVML library from the loader's path; the guard takes it from its plan.
    env = {
        **BARE_ENV,
        "LD_LIBRARY_PATH": str((root / library.lstrip("/")).parent),
        "HOME": str(setting.folder),
    }
    commands = {name: (argv, env) for name, argv in peer_commands(logs).items()}
    commands["bare"] = (bare_interpreter(setting.python), BARE_ENV)
    ours = f"slurm_guard prolog, all {len(check.names())} checks"
    commands[ours] = hook_command(setting, "prolog", root)
    found = alternate(commands, setting.repetitions)
    bare = found.pop("bare")
    judged = f"{roots.judged(roots.last_record(root))}; "
    return [row(name, series, bare, judged if name == ours else "") for name, series in found.items()]
