"""No report reads a whole table of the store: what grows without end is found by an index."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event

from slurm_guard import correlate
from slurm_guard.cli import job_lookup
from slurm_guard.core.plan import Plan
from slurm_guard.replay import Question, replay
from slurm_guard.report import audit, drains, incident, incidents, job, node, nodes
from slurm_guard.report.outlook import Slurm
from slurm_guard.store import Store, open_store
from slurm_guard.store.record import parse
from slurm_guard.store.writer import ingest
from tests.unit.report import stories
from tests.unit.store.factory import finding, ms, run
from tests.unit.store.factory import job as allocation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GROWING = (
    "runs", "results", "findings", "allocations", "actions", "node_samples",
    "incident_members", "incident_ends",
)  # fmt: skip
ENFORCED = {"default_profile": {"modes": [["*", "*", "enforce"]]}}
SILENT = Slurm(problem="no answer")


def the_same_fault_in_two_jobs() -> list[dict[str, Any]]:
    """An application's fault, so that other jobs with the same one are looked for."""
    xid = finding("gpu_xid.31", device="gpu3", tier="JOB", blame="job", event=True)
    made = []
    for number, minute in ((8120, 0), (8121, 30)):
        given = allocation(number, "gx03", minute)
        made += [
            run("prolog", "gx03", minute, allocation=given),
            run("epilog", "gx03", minute + 20, xid, allocation={**given, "exit_code": "1:0"}),
        ]
    return made


def look_again(store: Store) -> correlate.Changes:
    """Incidents, after a record that comes late and one that does not."""
    lost = finding("gpu_count.lost", device="gpu3")
    for minute in (20, 500):
        ingest(store, [parse(json.dumps(run("healthcheck", "gx03", minute, lost)).encode())])
    return correlate.run(store, ms(600))


REPORTS: dict[str, Callable[[Store], object]] = {
    "a job with a refusal": lambda store: job.build(store, 8103),
    "a job that met a broken node": lambda store: job.build(store, 8101),
    "a job with its own fault": lambda store: job.build(store, 8121),
    "a job that met its storage": lambda store: job.build(store, 8105),
    "a node": lambda store: node.build(store, "gx03", now=ms(181)),
    "all nodes": nodes.build,
    "drains": lambda store: drains.build(store, Plan({}, "gx01"), SILENT),
    "history": lambda store: audit.build(store, since=ms(0), until=ms(99)),
    "incidents": lambda store: incidents.build(store, since=ms(0), nodes=["gx03"]),
    "one incident": lambda store: incident.build(store, 1),
    "what is new": look_again,
    "a replay": lambda store: replay(store, Question(ENFORCED, ms(0), ms(181))),
    "history of one node": lambda store: audit.build(store, ["gx05"], ms(0), ms(99)),
}


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS.keys())
def test_a_report_scans_no_table_that_grows(tmp_path: Path, report: Callable[[Store], object]) -> None:
    records = [
        *stories.a_nodes_week(),
        *stories.a_refusal_and_a_requeue(),
        *stories.storage_down(),
        *the_same_fault_in_two_jobs(),
    ]
    asked: list[tuple[str, Any]] = []
    with open_store(tmp_path / "s.sqlite") as store:
        ingest(store, [parse(json.dumps(record).encode()) for record in records])
        correlate.run(store, ms(200))
        event.listen(store.engine, "before_cursor_execute", lambda *told: asked.append(told[2:4]))
        report(store)
        scans = [line for sql, values in list(asked) for line in plan_lines(store, sql, values)]
    assert asked
    assert scans == []


def plan_lines(store: Store, sql: str, values: Any) -> list[str]:
    """The steps of a query in which SQLite reads a growing table from end to end."""
    if not sql.lstrip().upper().startswith("SELECT"):
        return []
    with store.read() as connection:
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values).all()
    return [
        f"{row.detail} in {sql}"
        for row in rows
        if row.detail.startswith("SCAN") and row.detail.split()[1] in GROWING
    ]


def test_an_array_task_is_found_by_an_index(tmp_path: Path) -> None:
    given = allocation(8130, "gx03", 0, array_job_id=8128, array_task_id=2)
    asked: list[tuple[str, Any]] = []
    with open_store(tmp_path / "s.sqlite") as store:
        ingest(store, [parse(json.dumps(run("prolog", "gx03", 0, allocation=given)).encode())])
        event.listen(store.engine, "before_cursor_execute", lambda *told: asked.append(told[2:4]))
        assert job_lookup.number(store, "8128_2", job_lookup.Found([]), None) == 8130
        assert [line for sql, values in list(asked) for line in plan_lines(store, sql, values)] == []
