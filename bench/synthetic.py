"""A store as it is after a month of a large cluster, made by SQLite itself in minutes.

Every node has a healthcheck every five minutes, one in a hundred with a warning, and jobs of eight nodes
with a prolog and an epilog each. Rows are the same as ingest writes, in the order of their time.

    python -m bench.synthetic PATH [NODES [DAYS]]
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bench.records import CHECKS, CLUSTER
from slurm_guard.store import open_store
from slurm_guard.store.schema import runs as runs_table

if TYPE_CHECKING:
    import os

    from sqlalchemy import Connection

START = datetime(2026, 9, 1, tzinfo=UTC)
EVERY_MS = 300_000
DAY_MS = 86_400_000
WIDTH = 8
FIRST_JOB = 1000


@dataclass(frozen=True)
class Filled:
    """What was made: rows of runs, jobs, the id of a job in the middle of the time, and the file's size."""

    runs: int
    jobs: int
    middle_job: int
    size: int


def fill(
    path: str | os.PathLike[str], nodes: int = 2000, days: int = 30, jobs_per_node_day: int = 8
) -> Filled:
    """Fill a new store. Takes about ten seconds per million runs; 2,000 nodes and 30 days are 18 million."""
    steps = days * DAY_MS // EVERY_MS
    width = min(WIDTH, nodes)
    jobs = nodes * days * jobs_per_node_day // width
    with open_store(path) as store:
        with store.write() as connection:
            _names(connection, nodes)
            for index in ("runs_node_started", "runs_job"):
                connection.exec_driver_sql(f"DROP INDEX {index}")
            _healthchecks(connection, nodes, steps)
            _jobs(connection, nodes, jobs, width, days)
            for made in runs_table.indexes:
                made.create(connection)
        with store.read() as connection:
            total = connection.exec_driver_sql("SELECT max(id) FROM runs").scalar() or 0
    file = Path(path)
    size = sum(part.stat().st_size for part in file.parent.glob(f"{file.name}*"))
    return Filled(int(total), jobs, FIRST_JOB + jobs // 2, size)


def _names(connection: Connection, nodes: int) -> None:
    """Nodes, their boots, one guard and plan, and the lists of checks that passed."""
    rows = [(number, CLUSTER, f"gpu{number:04d}") for number in range(1, nodes + 1)]
    connection.exec_driver_sql("INSERT INTO nodes VALUES (?, ?, ?)", rows)
    boots = [(number, number, f"boot-{number}", f"machine-{number}", f"S{number}") for number, _, _ in rows]
    connection.exec_driver_sql("INSERT INTO boots VALUES (?, ?, ?, ?, ?)", boots)
    connection.exec_driver_sql("INSERT INTO guards VALUES (1, '0.1.0', '01234567', ?, 'ok', '')", ("0" * 32,))
    lists = [(1, " ".join(CHECKS)), (2, " ".join(name for name in CHECKS if name != "ib_errors"))]
    connection.exec_driver_sql("INSERT INTO check_lists VALUES (?, ?)", lists)
    series = [(number + 1, f"gpu_temperature gpu{number}") for number in range(8)]
    connection.exec_driver_sql("INSERT INTO series VALUES (?, ?)", series)


_RUN = """INSERT INTO runs (id, run_id, kind, hook, node_id, boot, guard, started, elapsed_ms, uptime_s,
    status, mode, drill, passed, job_id, restart, schema, digest)"""
_IDENTITY = "CAST(printf('%016d', {id}) AS BLOB), 'run'"
_NUMBERS = """WITH RECURSIVE number(value) AS
    (SELECT 0 UNION ALL SELECT value + 1 FROM number WHERE value + 1 < {most})"""


def _healthchecks(connection: Connection, nodes: int, steps: int) -> None:
    run = f"number.value * {nodes} + nodes.id"
    warned = f"({run}) % 100 = 0"
    connection.exec_driver_sql(
        f"""{_NUMBERS.format(most=steps)} {_RUN}
        SELECT {run}, {_IDENTITY.format(id=run)}, 'healthcheck', nodes.id, nodes.id, 1,
            {_start()} + number.value * {EVERY_MS} + nodes.id * 37, 34.5, 86400.0 + number.value * 300,
            iif({warned}, 'warn', 'pass'), 'enforce', 0, iif({warned}, 2, 1), NULL, NULL, '1.0', 0
        FROM number CROSS JOIN nodes"""
    )
    connection.exec_driver_sql(
        """INSERT INTO findings (run, node_id, started, "check", fault, status, device, message, metric,
            value, blame, scope, tier, event)
        SELECT id, node_id, started, 'ib_errors', 'ib_errors.symbol', 'warn', 'mlx5_0/1',
            'mlx5_0/1: symbol errors grew by 3', 'ib_symbol_errors', 3.0, 'fabric', 'device', 'WARN', 0
        FROM runs WHERE status = 'warn'"""
    )
    connection.exec_driver_sql(
        "INSERT INTO results SELECT id, 'ib_errors', 'warn' FROM runs WHERE status = 'warn'"
    )


def _jobs(connection: Connection, nodes: int, jobs: int, width: int, days: int) -> None:
    """Jobs one after the other over the time, each on `width` neighbouring nodes, two hours long."""
    first = connection.exec_driver_sql("SELECT max(id) FROM runs").scalar() or 0
    groups = max(1, nodes // width)
    shares = f"""{_NUMBERS.format(most=jobs)}, share AS (
        SELECT number.value AS job, nodes.id AS node, number.value % {groups} AS block,
            {_start()} + number.value * {days * DAY_MS // max(1, jobs)} AS opened,
            {first} + (number.value * {width} + (nodes.id - 1) % {width}) * 2 AS run
        FROM number JOIN nodes ON nodes.id > (number.value % {groups}) * {width}
            AND nodes.id <= (number.value % {groups} + 1) * {width})"""
    for hook, step, delay in (("prolog", 1, 40), ("epilog", 2, 7_200_000)):
        run = f"run + {step}"
        connection.exec_driver_sql(
            f"""{shares} {_RUN}
            SELECT {run}, {_IDENTITY.format(id=run)}, '{hook}', node, node, 1, opened + {delay}, 41.0,
                90000.0, 'pass', 'enforce', 0, 1, {FIRST_JOB} + job, 0, '1.0', 0
            FROM share"""
        )
    _allocations(connection, shares, width)
    connection.exec_driver_sql(
        f"""INSERT INTO node_samples SELECT runs.id, series.id, 40.0 + series.id, NULL
        FROM runs CROSS JOIN series WHERE runs.id > {first}"""
    )


def _allocations(connection: Connection, shares: str, width: int) -> None:
    gpus = json.dumps([str(gpu) for gpu in range(8)])
    connection.exec_driver_sql(
        f"""{shares} INSERT INTO allocations (node_id, job_id, opened, opened_sure, restart, restart_sure,
            uid, user, "partition", nodes, gpus, exit_code, closed, prolog_run, epilog_run)
        SELECT node, {FIRST_JOB} + job, opened, 1, 0, 1, 1000, 'ada', 'gpu',
            printf('gpu[%04d-%04d]', block * {width} + 1, (block + 1) * {width}), '{gpus}', '0:0',
            opened + 7200041, run + 1, run + 2
        FROM share"""
    )


def _start() -> int:
    return round(START.timestamp() * 1000)


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[2:]]
    began = time.perf_counter()
    made = fill(sys.argv[1], *numbers)
    print(json.dumps({**asdict(made), "seconds": round(time.perf_counter() - began, 1)}))
