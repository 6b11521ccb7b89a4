"""The bench's month of a cluster looks like what ingest writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import synthetic
from slurm_guard.report import job, nodes
from slurm_guard.store import fleet, open_store

if TYPE_CHECKING:
    from pathlib import Path


def test_a_made_up_month_is_reported_like_a_real_one(tmp_path: Path) -> None:
    made = synthetic.fill(tmp_path / "store.sqlite", nodes=16, days=1)
    with open_store(tmp_path / "store.sqlite") as store:
        report = job.build(store, made.middle_job)
        overview = nodes.build(store)
        counts = fleet.counts(store)
    assert (counts["runs"], made.jobs) == (made.runs, 16)
    assert made.runs == 16 * 288 + 16 * 8 * 2
    ((run),) = report["runs"]
    assert (len(run["node_table"]), run["coverage"]["complete"], run["verdict"]["blame"]) == (8, True, "none")
    assert overview["totals"]["nodes"] == 16
