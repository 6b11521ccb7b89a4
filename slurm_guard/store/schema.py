"""The tables of the store. Times are integer milliseconds since 1970 in UTC, flags are 0 and 1.

A run is one small row: what repeats from run to run (which checks passed, which boot, which guard and
plan) is kept once in a table of its own and named by number. Only what is not `pass` has rows of its own.
"""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

#: Major: older code cannot read it. Minor: only added tables or columns.
VERSION = (1, 1)

metadata = MetaData()

meta = Table("meta", metadata, Column("key", Text, primary_key=True), Column("value", Text, nullable=False))


def _id() -> Column[int]:
    return Column("id", Integer, primary_key=True)


def _wholes(names: str, *, required: bool = False) -> list[Column[int]]:
    return [Column(name, Integer, nullable=not required) for name in names.split()]


def _texts(names: str, *, required: bool = False) -> list[Column[str]]:
    return [Column(name, Text, nullable=not required) for name in names.split()]


def _floats(names: str) -> list[Column[float]]:
    return [Column(name, Float) for name in names.split()]


#: NodeNames of Slurm.
nodes = Table(
    "nodes",
    metadata,
    _id(),
    *_texts("cluster name", required=True),
    UniqueConstraint("name", "cluster"),
)

#: One boot of one machine under a NodeName: the same name with another machine_id or serial is another node.
boots = Table(
    "boots",
    metadata,
    _id(),
    *_wholes("node_id", required=True),
    *_texts("boot_id machine_id serial", required=True),
    UniqueConstraint("node_id", "boot_id", "machine_id", "serial"),
)

#: Which code and which plan made a run.
guards = Table(
    "guards",
    metadata,
    _id(),
    *_texts("guard_version check_set plan_hash plan_state plan_problem", required=True),
    UniqueConstraint("guard_version", "check_set", "plan_hash", "plan_state", "plan_problem"),
)

#: Lists of check names (with a space between) that passed or were skipped together.
check_lists = Table("check_lists", metadata, _id(), Column("names", Text, nullable=False, unique=True))

#: Names of measured series: `metric` or `metric device`.
series = Table("series", metadata, _id(), Column("name", Text, nullable=False, unique=True))

#: One row per run of a hook (`kind` run) and per action record (`kind` action).
runs = Table(
    "runs",
    metadata,
    _id(),
    Column("run_id", LargeBinary(16), nullable=False, unique=True),
    *_texts("kind hook", required=True),
    *_wholes("node_id boot guard started", required=True),
    *_floats("elapsed_ms uptime_s"),
    *_texts("status", required=True),
    *_texts("mode"),
    *_wholes("drill", required=True),
    *_wholes("passed skipped job_id restart"),
    *_texts("others coverage decisions"),
    *_wholes("dropped exit"),
    *_texts("user"),
    Column("parent", LargeBinary(16)),
    *_texts("schema", required=True),
    *_wholes("digest", required=True),
    *_texts("extra"),
)
Index("runs_node_started", runs.c.node_id, runs.c.started)
Index("runs_job", runs.c.job_id, sqlite_where=runs.c.job_id.is_not(None))

#: Results that are neither pass nor skip.
results = Table(
    "results",
    metadata,
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("check", Text, primary_key=True),
    *_texts("status", required=True),
    sqlite_with_rowid=False,
)

#: Judged facts that are neither pass nor skip; node and time are repeated here for windows by fault.
findings = Table(
    "findings",
    metadata,
    _id(),
    *_wholes("run node_id started", required=True),
    *_texts("check fault status device", required=True),
    *_texts("device_id"),
    *_texts("message", required=True),
    *_texts("metric"),
    *_floats("value"),
    *_texts("value_text unit reference blame scope tier"),
    *_wholes("event", required=True),
    *_texts("since remedy extra"),
)
Index("findings_run", findings.c.run)
Index("findings_node_started", findings.c.node_id, findings.c.started)
Index("findings_fault_started", findings.c.fault, findings.c.started)
Index("findings_events", findings.c.node_id, findings.c.started, sqlite_where=findings.c.event == 1)

#: One run of a job on one node, from its prolog to its epilog. `restart` is the prolog's word; the count in
#: an epilog's environment is already the next run's, so `restart_sure` is 0 where no prolog vouches for it.
allocations = Table(
    "allocations",
    metadata,
    _id(),
    *_wholes("node_id job_id opened opened_sure", required=True),
    *_wholes("restart"),
    *_wholes("restart_sure", required=True),
    *_wholes("start_time array_job_id array_task_id het_job_id uid"),
    *_texts("user partition nodes gpus exit_code"),
    *_wholes("closed prolog_run epilog_run"),
    UniqueConstraint("job_id", "node_id", "opened"),
)
Index("allocations_node_opened", allocations.c.node_id, allocations.c.opened)
Index(
    "allocations_array",
    allocations.c.array_job_id,
    allocations.c.array_task_id,
    sqlite_where=allocations.c.array_job_id.is_not(None),
)

#: What was done, would have been done, or was held back.
actions = Table(
    "actions",
    metadata,
    _id(),
    *_wholes("run node_id at", required=True),
    *_texts("action fault device", required=True),
    *_texts("reason"),
    *_texts("outcome", required=True),
    *_texts("why answer"),
    *_wholes("calls job_id"),
    *_texts("extra"),
)
Index("actions_run", actions.c.run)
Index("actions_node_at", actions.c.node_id, actions.c.at)
Index("actions_at", actions.c.at)

#: Numbers of a prolog or epilog, and how counters grew.
node_samples = Table(
    "node_samples",
    metadata,
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("series", Integer, primary_key=True, autoincrement=False),
    *_floats("value growth"),
    sqlite_with_rowid=False,
)

#: Files that could not be read as records; the files themselves lie in `moved_to`.
set_aside = Table(
    "set_aside",
    metadata,
    _id(),
    *_wholes("at", required=True),
    *_texts("folder name digest", required=True),
    *_wholes("size", required=True),
    *_texts("reason", required=True),
    *_texts("moved_to"),
    UniqueConstraint("folder", "name", "digest"),
)
