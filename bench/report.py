"""The job report on a month of runs: `sguard job N`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import synthetic
from bench.measure import alternate, bare_interpreter
from bench.table import Row
from slurm_guard.core.paths import Places

if TYPE_CHECKING:
    from bench.setting import Setting

JOB_MS = 500
NODES = 2000
DAYS = 30


def rows(setting: Setting) -> list[Row]:
    """`sguard job` as a person runs it, the job's end on record, on a root folder with a filled store."""
    root = setting.folder / "month"
    nodes = max(8, int(NODES * setting.scale))
    filled = synthetic.fill(Places(str(root)).database, nodes, DAYS)
    job = str(filled.middle_job)
    commands = {
        "bare": (bare_interpreter(setting.python), None),
        "job": ([setting.sguard, "job", job, "--no-slurm", "--root", str(root)], None),
    }
    found = alternate(commands, max(5, setting.repetitions // 2))
    statuses = found["job"].statuses()
    if not statuses <= {0, 1}:
        raise RuntimeError(f"sguard job {job} ended with {sorted(statuses)}: it reported nothing")
    wall = found["job"].wall_ms()
    size = f"{filled.runs:,} runs, {filled.size / 1e9:.1f} GB"
    scaled = "" if nodes == NODES else "; smaller than the budget's: use --scale 1"
    return [
        Row(
            f"sguard job N, {DAYS} days of {nodes:,} nodes",
            f"<= {JOB_MS} ms",
            "SQLAlchemy's import 235",
            f"{wall:.0f} ms wall, {found['job'].cpu_ms():.0f} CPU",
            f"{found['bare'].wall_ms():.0f} ms",
            holds=wall <= JOB_MS,
            note=f"{size}; exit code {sorted(statuses)}{scaled}",
        )
    ]
