"""The reports' texts, compared with files; `GOLDEN=write pytest …` writes them anew."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slurm_guard import correlate
from slurm_guard.core.errors import NotFoundError
from slurm_guard.core.plan import Plan
from slurm_guard.report import audit, drains, incident, incidents, job, node, nodes
from slurm_guard.report.layout import columns_of
from slurm_guard.report.outlook import Slurm
from slurm_guard.slurm.gateway import NodeState
from slurm_guard.store import incidents as stored
from slurm_guard.store import open_store
from slurm_guard.store.record import parse
from slurm_guard.store.writer import ingest
from tests.unit.report import stories
from tests.unit.store.factory import at, ms

if TYPE_CHECKING:
    from slurm_guard.store import Store

GOLDEN = Path(__file__).parents[2] / "golden"


def told(state: str, code: str, start: float, end: float, nodes: str, **more: Any) -> dict[str, Any]:
    times = {"submit_time": at(start - 12), "start_time": at(start), "end_time": at(end)}
    who = {"user": "mira", "account": "vision", "name": "sft-7b", "partition": "train"}
    return {"state": state, "exit_code": code, "nodes": nodes, **times, **who, **more}


def plan() -> Plan:
    """A plan that drains, and lets nodes return, by itself."""
    return Plan({"profiles": [], "default_profile": {"modes": [["*", "*", "enforce"]]}}, "gx01")


def in_slurm(name: str, reason: str = "", minutes: float = 0, *flags: str) -> NodeState:
    """A node as Slurm knows it."""
    at_s = ms(minutes) // 1000 if reason else None
    by = "root" if reason else ""
    return NodeState(name, "idle", flags, reason=reason, reason_user=by, reason_time=at_s)


SLURM = Slurm(
    [
        in_slurm("gx05", "SG:fs_mounts.hung /scratch", 60.1, "DRAIN"),
        *(in_slurm(f"gx{number:02d}") for number in (6, 7, 8, 9, 20)),
    ]
)


def spoken_of(store: Store) -> dict[str, Any]:
    """The first incident, after people spoke of it."""
    stored.acknowledge(store, 1, "lena", "the vendor is told", ms(55))
    stored.close(store, 1, "lena", "swapped", ms(70))
    return incident.build(store, 1, now=ms(75))


REPORTS: dict[str, tuple[stories.Records, Any]] = {
    "job_healthy": (
        stories.a_healthy_job(),
        lambda s: job.build(s, 8100, told("COMPLETED", "0:0", 0, 95, "gx[01-08]")),
    ),
    "job_gpu_lost": (
        stories.a_gpu_lost(),
        lambda s: job.build(s, 8101, told("FAILED", "1:0", 0, 52, "gx[01-04]")),
    ),
    "job_requeued": (
        stories.a_refusal_and_a_requeue(),
        lambda s: job.build(s, 8103, [told("COMPLETED", "0:0", 4, 30, "gx06", restarts=1)]),
    ),
    "job_requeued_waits": (
        stories.a_refusal_and_a_requeue()[:8],
        lambda s: job.build(s, 8103, [{"state": "PENDING", "reason": "BeginTime", "restarts": 1}]),
    ),
    "job_requeued_held": (
        stories.a_refusal_and_a_requeue()[:8],
        lambda s: job.build(
            s, 8103, [{"state": "PENDING", "reason": "launch failed requeued held", "restarts": 1}]
        ),
    ),
    "job_without_an_end": (
        [one for one in stories.a_healthy_job() if one["hook"] != "epilog"],
        lambda s: job.build(s, 8100),
    ),
    "job_runs_missing": (
        stories.runs_missing(),
        lambda s: job.build(s, 8104, {"problem": "sacct: slurmdbd does not answer"}),
    ),
    "job_storage_down": (
        stories.storage_down(),
        lambda s: job.build(s, 8105, told("FAILED", "1:0", 0, 30, "gx[01-02]")),
    ),
    "job_hostile_text": (stories.hostile_text(), lambda s: job.build(s, 8106)),
    "job_without_runs": ([], lambda s: job.build(s, 8107, told("FAILED", "1:0", 0, 30, "gx[01-02]"))),
    "node": (stories.a_nodes_week(), lambda s: node.build(s, "gx03", now=ms(181))),
    "node_held": (
        stories.three_faults(),
        lambda s: node.build(s, "gx08", plan=plan(), slurm=SLURM, now=ms(75)),
    ),
    "nodes": (
        [*stories.a_nodes_week(), *stories.storage_down(), *stories.a_healthy_job()],
        lambda s: nodes.build(s, now=ms(181)),
    ),
    "nodes_none": ([], lambda s: nodes.build(s, ["gx01"], now=ms(0))),
    "drains": (stories.three_faults(), lambda s: drains.build(s, plan(), SLURM, now=ms(75))),
    "drains_without_slurm": (
        stories.three_faults(),
        lambda s: drains.build(s, plan(), Slurm(problem="sinfo did not answer"), now=ms(75)),
    ),
    "drains_none": ([], lambda s: drains.build(s, plan(), SLURM, ["gx20"], now=ms(75))),
    "drain_history": (
        [*stories.a_nodes_week(), *stories.storage_down(), *stories.a_refusal_and_a_requeue()],
        audit.build,
    ),
    "drain_history_none": ([], audit.build),
    "incidents": (
        [*stories.a_nodes_week(), *stories.storage_down(), *stories.a_healthy_job(), *stories.three_faults()],
        lambda s: incidents.build(s, now=ms(181)),
    ),
    "incidents_none": ([], lambda s: incidents.build(s, now=ms(0))),
    "incident": (stories.a_gpu_lost(), spoken_of),
    "incident_shared": (stories.storage_down(), lambda s: incident.build(s, 1, now=ms(75))),
}
TEXTS = {
    "job": job.text,
    "node": node.text,
    "nodes": nodes.text,
    "drains": drains.text,
    "drain_history": audit.text,
    "incidents": incidents.text,
    "incident": incident.text,
}


def built(folder: Path, name: str) -> dict[str, Any]:
    records, build = REPORTS[name]
    with open_store(folder / f"{name}.sqlite") as store:
        ingest(store, [parse(json.dumps(record).encode()) for record in records])
        correlate.run(store, ms(0))
        report: dict[str, Any] = build(store)
    return report


@pytest.mark.parametrize("name", REPORTS)
def test_texts_are_as_on_file(tmp_path: Path, name: str) -> None:
    report = built(tmp_path, name)
    text = TEXTS[report["kind"]](report)
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("width", [60, 80, 132])
@pytest.mark.parametrize("name", REPORTS)
def test_no_line_is_wider_and_none_steers_a_terminal(tmp_path: Path, name: str, width: int) -> None:
    report = built(tmp_path, name)
    text = TEXTS[report["kind"]](report, width)
    assert [line for line in text.splitlines() if columns_of(line) > width] == []
    assert [char for char in text if not char.isprintable() and char != "\n"] == []
    assert [line for line in text.splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_is_json_and_every_key_is_documented(
    tmp_path: Path, name: str, repository: Path
) -> None:
    report = json.loads(json.dumps(built(tmp_path, name), allow_nan=False))
    assert report["schema"] == "1.0"
    assert name.startswith(report["kind"])
    page = (repository / "docs" / "job-report.md").read_text()
    assert {key for key in keys(report) if f"`{key}`" not in page} == set()


def keys(value: Any) -> set[str]:
    """The keys of a report, without those of objects that are keyed by status or by source."""
    if isinstance(value, list):
        return set().union(*(keys(one) for one in value)) if value else set()
    if not isinstance(value, dict):
        return set()
    inner = (keys(one) for key, one in value.items() if key not in ("coverage", "runs") or not is_keyed(one))
    return set(value).union(*inner)


def is_keyed(value: Any) -> bool:
    return isinstance(value, dict) and "complete" not in value


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with open_store(tmp_path / "empty.sqlite") as opened:
        yield opened


def test_what_nobody_knows_is_not_found(store: Store) -> None:
    ways: list[tuple[Any, str]] = [
        (None, "Slurm was not asked"),
        ([], "Slurm tells nothing: it knows no such job"),
        ({"problem": "sacct is not there"}, "Slurm tells nothing: sacct is not there"),
    ]
    for accounting, said in ways:
        with pytest.raises(NotFoundError, match=rf"job 4 is not on record here.*{said}.*sguard ingest"):
            job.build(store, 4, accounting)
    with pytest.raises(NotFoundError, match="no run of a hook of cluster lab names it"):
        job.build(store, 4, None, "lab")
    with pytest.raises(NotFoundError, match="gx77"):
        node.build(store, "gx77")


def test_a_large_job_stays_readable(tmp_path: Path) -> None:
    records = [one for n in range(300) for one in stories.healthy(8200, f"gx{n:03d}", "gx[000-299]", 0, 9)]
    with open_store(tmp_path / "large.sqlite") as store:
        ingest(store, [parse(json.dumps(record).encode()) for record in records])
        text = job.text(job.build(store, 8200))
    assert "gx[000-299]" in text
    assert len(text.splitlines()) < 40


def test_one_node_is_not_called_nodes(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.sqlite") as store:
        ingest(store, [parse(json.dumps(stories.a_healthy_job()[0]).encode())])
        assert nodes.text(nodes.build(store, now=ms(1))).startswith("1 node: 1 clean\n")
