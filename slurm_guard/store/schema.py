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


def _whole(name: str, *, required: bool = False) -> Column[int]:
    return Column(name, Integer, nullable=not required)


def _text(name: str, *, required: bool = False) -> Column[str]:
    return Column(name, Text, nullable=not required)


#: NodeNames of Slurm.
nodes = Table(
    "nodes",
    metadata,
    _id(),
    _text("cluster", required=True),
    _text("name", required=True),
    UniqueConstraint("name", "cluster"),
)

#: One boot of one machine under a NodeName: the same name with another machine_id or serial is another node.
boots = Table(
    "boots",
    metadata,
    _id(),
    _whole("node_id", required=True),
    _text("boot_id", required=True),
    _text("machine_id", required=True),
    _text("serial", required=True),
    UniqueConstraint("node_id", "boot_id", "machine_id", "serial"),
)

#: Which code and which plan made a run.
guards = Table(
    "guards",
    metadata,
    _id(),
    _text("guard_version", required=True),
    _text("check_set", required=True),
    _text("plan_hash", required=True),
    _text("plan_state", required=True),
    _text("plan_problem", required=True),
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
    _text("kind", required=True),
    _text("hook", required=True),
    _whole("node_id", required=True),
    _whole("boot", required=True),
    _whole("guard", required=True),
    _whole("started", required=True),
    Column("elapsed_ms", Float),
    Column("uptime_s", Float),
    _text("status", required=True),
    _text("mode"),
    _whole("drill", required=True),
    _whole("passed"),
    _whole("skipped"),
    _whole("job_id"),
    _whole("restart"),
    _text("others"),
    _text("coverage"),
    _text("decisions"),
    _whole("dropped"),
    _whole("exit"),
    _text("user"),
    Column("parent", LargeBinary(16)),
    _text("schema", required=True),
    _whole("digest", required=True),
    _text("extra"),
)
Index("runs_node_started", runs.c.node_id, runs.c.started)
Index("runs_job", runs.c.job_id, sqlite_where=runs.c.job_id.is_not(None))

#: Results that are neither pass nor skip.
results = Table(
    "results",
    metadata,
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("check", Text, primary_key=True),
    _text("status", required=True),
    sqlite_with_rowid=False,
)

#: Judged facts that are neither pass nor skip; node and time are repeated here for windows by fault.
findings = Table(
    "findings",
    metadata,
    _id(),
    _whole("run", required=True),
    _whole("node_id", required=True),
    _whole("started", required=True),
    _text("check", required=True),
    _text("fault", required=True),
    _text("status", required=True),
    _text("device", required=True),
    _text("device_id"),
    _text("message", required=True),
    _text("metric"),
    Column("value", Float),
    _text("value_text"),
    _text("unit"),
    _text("reference"),
    _text("blame"),
    _text("scope"),
    _text("tier"),
    _whole("event", required=True),
    _text("since"),
    _text("remedy"),
    _text("extra"),
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
    _whole("node_id", required=True),
    _whole("job_id", required=True),
    _whole("opened", required=True),
    _whole("opened_sure", required=True),
    _whole("restart"),
    _whole("restart_sure", required=True),
    _whole("start_time"),
    _whole("array_job_id"),
    _whole("array_task_id"),
    _whole("het_job_id"),
    _whole("uid"),
    _text("user"),
    _text("partition"),
    _text("nodes"),
    _text("gpus"),
    _text("exit_code"),
    _whole("closed"),
    _whole("prolog_run"),
    _whole("epilog_run"),
    UniqueConstraint("job_id", "node_id", "opened"),
)
Index("allocations_node_opened", allocations.c.node_id, allocations.c.opened)

#: What was done, would have been done, or was held back.
actions = Table(
    "actions",
    metadata,
    _id(),
    _whole("run", required=True),
    _whole("node_id", required=True),
    _whole("at", required=True),
    _text("action", required=True),
    _text("fault", required=True),
    _text("device", required=True),
    _text("reason"),
    _text("outcome", required=True),
    _text("why"),
    _text("answer"),
    _whole("calls"),
    _whole("job_id"),
    _text("extra"),
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
    Column("value", Float),
    Column("growth", Float),
    sqlite_with_rowid=False,
)

#: Files that could not be read as records; the files themselves lie in `moved_to`.
set_aside = Table(
    "set_aside",
    metadata,
    _id(),
    _whole("at", required=True),
    _text("folder", required=True),
    _text("name", required=True),
    _text("digest", required=True),
    _whole("size", required=True),
    _text("reason", required=True),
    _text("moved_to"),
    UniqueConstraint("folder", "name", "digest"),
)
