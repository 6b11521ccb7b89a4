"""What Slurm knows of a job, and which number the records know it by; all of it, or one user's part alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from slurm_guard.core.errors import NotFoundError, SlurmError
from slurm_guard.slurm.said import brief
from slurm_guard.store import schema

if TYPE_CHECKING:
    from slurm_guard.slurm.gateway import Gateway, JobInfo
    from slurm_guard.store import Store

DEADLINE_S = 3.0
_TOLD = (
    "account",
    "end_time",
    "exit_code",
    "exit_signal",
    "name",
    "nodes",
    "partition",
    "reason",
    "restarts",
    "start_time",
    "state",
    "submit_time",
    "user",
)


@dataclass
class Found:
    """What Slurm told: runs as mappings for the report, the job's plain number, or why there is nothing."""

    accounting: list[dict[str, Any]]
    number: int | None = None
    problem: str = ""


def ask(slurm: Gateway, job_id: str, uid: int | None = None) -> Found:
    """Ask accounting for all runs of a job, and slurmctld where accounting has nothing.

    Accounting lags some seconds behind a job's end, and many sites have none. With a `uid`, runs of other
    users, and those of whom nobody says whose they are, count as not told.
    """
    problems: list[str] = []
    rows: list[JobInfo] = _own(_runs(slurm, job_id, problems), uid)
    if not rows:
        rows = _own(_live(slurm, job_id, problems), uid)
    if rows:
        # slurmctld tells of the last run only: why accounting did not tell of the others must not be lost.
        lacking = [{"problem": problem} for problem in problems]
        return Found([*(_told(row) for row in rows), *lacking], rows[-1].job_id)
    return nothing("; ".join(problems) or "neither accounting nor slurmctld knows the job (any more)")


def nothing(problem: str) -> Found:
    """Slurm told nothing, for this reason."""
    return Found([{"problem": problem}], None, problem)


def _own(rows: list[JobInfo], uid: int | None) -> list[JobInfo]:
    return rows if uid is None else [row for row in rows if row.uid == uid]


def _runs(slurm: Gateway, job_id: str, problems: list[str]) -> list[JobInfo]:
    try:
        return [row for row in slurm.accounting(job_id, DEADLINE_S) if not row.step]
    except SlurmError as error:
        problems.append(f"accounting: {brief(str(error))}")
        return []


def _live(slurm: Gateway, job_id: str, problems: list[str]) -> list[JobInfo]:
    try:
        found = slurm.job(job_id, DEADLINE_S)
    except SlurmError as error:
        problems.append(f"slurmctld: {brief(str(error))}")
        return []
    if found is None:
        problems.append("slurmctld no longer knows the job")
        return []
    return [found]


def _told(row: JobInfo) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _TOLD}


def number(store: Store, job_id: str, found: Found, cluster: str | None, uid: int | None = None) -> int:
    """The plain number of a job: itself, or what Slurm or a record says an array task's number is.

    Raises NotFoundError if nobody knows the number of an array task or het component.
    """
    if job_id.isdigit():
        return int(job_id)
    if found.number is not None:
        return found.number
    known = _task_on_record(store, job_id, cluster, uid) if "_" in job_id else None
    if known is None:
        raise NotFoundError(
            f"job {job_id}: no record names its plain job id, and Slurm did not: {found.problem}; "
            "give the plain id (`squeue -O JobID`, `sacct -o JobIDRaw`)"
        )
    return known


def _task_on_record(store: Store, job_id: str, cluster: str | None, uid: int | None) -> int | None:
    table, nodes = schema.allocations, schema.nodes
    array, task = (int(part) for part in job_id.split("_"))
    query = select(table.c.job_id).where(table.c.array_job_id == array, table.c.array_task_id == task)
    if cluster is not None:
        query = query.join(nodes, nodes.c.id == table.c.node_id).where(nodes.c.cluster == cluster)
    if uid is not None:
        query = query.where(table.c.uid == uid)
    with store.read() as connection:
        found: int | None = connection.scalar(query.order_by(table.c.opened.desc()).limit(1))
    return found
