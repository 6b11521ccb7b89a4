"""The job report on a month of runs: `sguard job N`."""

from __future__ import annotations

import random
from itertools import islice
from typing import TYPE_CHECKING

from bench import records
from bench.measure import alternate, bare_interpreter
from bench.store import DAYS, START
from bench.table import Row

if TYPE_CHECKING:
    from pathlib import Path

    from bench.setting import Setting

JOB_MS = 500
NODES = 2000


def rows(setting: Setting) -> list[Row]:
    """`sguard job` as a person runs it, the job's end on record, on a root folder with a filled store."""
    root = setting.folder / "month"
    nodes = max(8, int(NODES * setting.scale))
    runs = fill(root, nodes)
    job = "1004"
    commands = {
        "bare": (bare_interpreter(setting.python), None),
        "job": ([setting.sguard, "job", job, "--no-slurm", "--root", str(root)], None),
    }
    found = alternate(commands, max(5, setting.repetitions // 2))
    wall = found["job"].wall_ms()
    statuses = found["job"].statuses()
    if not statuses <= {0, 1}:
        raise RuntimeError(f"sguard job {job} ended with {sorted(statuses)}: it reported nothing")
    size = f"30 days of {nodes} nodes ({runs:,} runs) instead of 2,000"
    return [
        Row(
            "sguard job N, 30 days of 2,000 nodes",
            f"<= {JOB_MS} ms",
            "SQLAlchemy's import 235",
            f"{wall:.0f} ms wall, {found['job'].cpu_ms():.0f} CPU",
            f"{found['bare'].wall_ms():.0f} ms",
            holds=wall <= JOB_MS,
            note=f"scaled: {size}; exit code {sorted(statuses)}",
        )
    ]


def fill(root: Path, nodes: int) -> int:
    """A month of healthchecks and jobs in the store of `root`; returns the number of runs."""
    from slurm_guard import ingest as service
    from slurm_guard.core.paths import Places
    from slurm_guard.store.engine import open_store

    draw = random.Random(2)
    runs = 0
    with open_store(Places(str(root)).database) as store:
        for source in (
            records.jobs(draw, nodes, START, DAYS, 8),
            records.healthchecks(draw, nodes, START, DAYS),
        ):
            while batch := list(islice(source, 20_000)):
                spool = root / "incoming" / str(runs)
                records.write_spool(spool, iter(batch))
                service.ingest_folder(store, spool)
                runs += len(batch)
    return runs
