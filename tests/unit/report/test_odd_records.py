"""One odd record, of a later version or a broken clock, costs no report: not of its own node, not of all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from slurm_guard import correlate
from slurm_guard.core.errors import NotFoundError
from slurm_guard.core.plan import Plan
from slurm_guard.report import audit, drains, incident, incidents, job, node, nodes
from slurm_guard.report.layout import columns_of
from slurm_guard.report.outlook import Slurm
from slurm_guard.store import Store, open_store
from slurm_guard.store.record import Record, parse_or_error
from slurm_guard.store.writer import ingest
from tests.unit.report import stories

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NASTY = "\x1b[31mred\u202e " + "y" * 100
PLAN = Plan({}, "gx01")
ODD: dict[str, dict[str, Any]] = {
    "coverage of another shape": {"coverage": {"kmsg": ["x"], "nvml": {"hung": 1}}},
    "a run of a million years": {"elapsed_ms": 4e18},
    "a run that ended before it began": {"elapsed_ms": -4e18},
    "an uptime of ages": {"uptime_s": 4e18},
    "the last second": {"started": "9999-12-31T23:59:59Z"},
    "the first second": {"started": "0001-01-01T00:00:00Z"},
    "a node's name": {"node": NASTY},
    "a cluster's name": {"cluster": NASTY},
    "decisions of another shape": {"decisions": [{"fault": ["x"], "device": {}, "action": [1], "why": 3}]},
    "a machine of other types": {"machine": {"machine_id": NASTY, "serial": 5, "boot_id": True}},
    "a plan in a state that is not known": {"plan": {"state": NASTY, "problem": NASTY}},
}
ODD_FINDINGS: dict[str, dict[str, Any]] = {
    "words": dict.fromkeys(("device", "fault", "tier", "blame", "scope", "unit", "message"), NASTY),
    "a blame that is not known": {"blame": "cooling", "remedy": None},
    "an early time": {"since": "0001-01-01T00:00:00+14:00"},
    "a late time": {"since": "9999-12-31T23:59:59-14:00"},
    "no time": {"since": "yesterday"},
    "a value of another shape": {"value": [1, {"a": "b"}], "reference": "about 5"},
}


def every_story() -> Iterator[dict[str, Any]]:
    for story in (
        stories.a_gpu_lost,
        stories.a_refusal_and_a_requeue,
        stories.storage_down,
        stories.runs_missing,
    ):
        yield from story()


def check_reports(folder: Path, records: list[dict[str, Any]]) -> None:
    """All reports can be made, and every line fits and steers no terminal."""
    parsed = [parse_or_error(json.dumps(record).encode()) for record in records]
    with open_store(folder / "s.sqlite") as store:
        ingest(store, [one for one in parsed if isinstance(one, Record)])
        correlate.run(store, 0)
        names = {str(one.data["node"]) for one in parsed if isinstance(one, Record)}
        lines = [line for page in pages(store, names) for line in page.splitlines()]
    assert lines
    assert [line for line in lines if columns_of(line) > 80 or not line.isprintable()] == []


def pages(store: Store, names: set[str]) -> Iterator[str]:
    for job_id in (8101, 8103, 8104, 8105):
        try:
            yield job.text(job.build(store, job_id))
        except NotFoundError:
            continue
    for name in sorted(names):
        try:
            yield node.text(node.build(store, name, plan=PLAN))
        except NotFoundError:
            continue
    yield nodes.text(nodes.build(store))
    yield drains.text(drains.build(store, PLAN, Slurm(problem="no answer")))
    yield audit.text(audit.build(store))
    found = incidents.build(store)
    yield incidents.text(found)
    for one in found["incidents"]:
        yield incident.text(incident.build(store, one["id"]))


@pytest.mark.parametrize("change", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("hook", ["prolog", "epilog", "healthcheck"])
def test_odd_records(tmp_path: Path, hook: str, change: dict[str, Any]) -> None:
    records = [{**one, **change} if one.get("hook") == hook else one for one in every_story()]
    check_reports(tmp_path, records)


@pytest.mark.parametrize("change", ODD_FINDINGS.values(), ids=ODD_FINDINGS.keys())
def test_odd_findings(tmp_path: Path, change: dict[str, Any]) -> None:
    records = list(every_story())
    for record in records:
        for result in record.get("results", ()):
            result["findings"] = [{**one, **change} for one in result["findings"]]
    check_reports(tmp_path, records)


def test_odd_allocations(tmp_path: Path) -> None:
    odd = {"nodes": "gx[01-99999999]", "gpus": [{"a": 1}, None, 3], "exit_code": ["x"], "start_time": 9e10}
    records = list(every_story())
    for record in records:
        if record.get("allocation"):
            record["allocation"] = {**record["allocation"], **odd, "user": NASTY, "partition": NASTY}
    check_reports(tmp_path, records)
