"""Slurm's JSON is read by shape: golden documents of three versions, and the shapes in between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core.errors import SlurmError, SlurmUnreachableError
from slurm_guard.slurm import parse_json, parse_text

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "slurm"
NODE_FILES = sorted([*GOLDEN.glob("*/sinfo.json"), *GOLDEN.glob("*/scontrol_nodes.json")])
JOB_FILES = sorted(GOLDEN.glob("*/squeue.json"))


@pytest.mark.parametrize("path", NODE_FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_json_and_text_tell_the_same_nodes(path: Path) -> None:
    from_json = parse_json.nodes(parse_json.document(path.read_text()))
    from_text = parse_text.nodes((path.parent / "nodes.txt").read_text(), "<TOKEN>", 0.0)

    def told(nodes: list[Any]) -> dict[str, tuple[Any, ...]]:
        return {n.name: (str(n), n.reason, n.reason_time, n.partitions, n.comment) for n in nodes}

    assert told(from_json) == told(from_text)
    assert {n.reason_user for n in from_json if n.reason} == {"root"}


@pytest.mark.parametrize("path", JOB_FILES, ids=lambda path: path.parent.name)
def test_json_and_text_tell_the_same_jobs(path: Path) -> None:
    document = parse_json.document(path.read_text())
    from_text = {j.job_id: j for j in parse_text.jobs((path.parent / "jobs.txt").read_text(), "<TOKEN>")}
    jobs = parse_json.jobs(document)
    assert len(jobs) >= 7
    for job in jobs:
        other = from_text[job.job_id]
        for field in (
            "name",
            "state",
            "user",
            "uid",
            "partition",
            "nodes",
            "exit_code",
            "exit_signal",
            "submit_time",
        ):
            assert getattr(job, field) == getattr(other, field), (job, field)
        for field in ("array_job_id", "array_task_id", "het_job_id", "restarts", "admin_comment"):
            assert getattr(job, field) == getattr(other, field), (job, field)
        if job.nodes:  # without an allocation, squeue's text tells what was asked for
            assert job.tres == other.tres
    assert parse_json.plugin(document)


@pytest.mark.parametrize(
    ("row", "state", "exact"),
    [
        ({"state": "mixed", "state_flags": ["DRAIN", "CLOUD"]}, "MIXED+CLOUD+DRAIN", True),
        ({"state": "idle", "state_flags": []}, "IDLE", True),
        ({"state": ["ALLOCATED", "DRAIN"]}, "ALLOCATED+DRAIN", True),
        ({"state": ["IDLE", "FROZEN"]}, "IDLE+FROZEN", True),
        ({"state": "draining", "state_flags": None}, "ALLOCATED+DRAIN", False),
    ],
)
def test_node_states_of_each_data_parser(row: dict[str, Any], state: str, exact: bool) -> None:
    (node,) = parse_json.nodes({"nodes": [{"name": "gx1", **row}]})
    assert (str(node), node.exact) == (state, exact)


@pytest.mark.parametrize(
    ("row", "nodes"),
    [
        ({"nodes": "hx[3-4]"}, "hx[3-4]"),
        ({"nodes": {"count": 2, "list": "hx[3-4]", "allocation": []}}, "hx[3-4]"),
        ({"nodes": "", "job_resources": {"nodes": {"count": 1, "list": "hx3"}}}, "hx3"),
        ({"job_resources": {"nodes": "hx5"}}, "hx5"),
        (
            {"nodes": {"list": "", "allocation": [{"name": "hx9", "cores": [{"status": ["UNALLOCATED"]}]}]}},
            "",
        ),
        ({}, ""),
    ],
)
def test_job_nodes_of_each_data_parser(row: dict[str, Any], nodes: str) -> None:
    (job,) = parse_json.jobs({"jobs": [{"job_id": 12, "job_state": ["RUNNING"], **row}]})
    assert job.nodes == nodes


@pytest.mark.parametrize(
    ("state", "exit_code", "expected"),
    [
        ("FAILED", 512, (2, 0)),
        (["FAILED"], {"return_code": {"set": True, "infinite": False, "number": 2}}, (2, 0)),
        (["FAILED"], {"return_code": 2, "signal": {"signal_id": 0}}, (2, 0)),
        (["FAILED"], {"return_code": {"set": False}, "signal": {"id": {"set": True, "number": 6}}}, (0, 6)),
        (["RUNNING"], {"return_code": {"set": True, "number": 0}}, (None, None)),
        ("COMPLETED", None, (None, None)),
    ],
)
def test_exit_codes_of_each_data_parser(state: Any, exit_code: Any, expected: tuple[Any, Any]) -> None:
    (job,) = parse_json.jobs({"jobs": [{"job_id": 12, "job_state": state, "exit_code": exit_code}]})
    assert (job.exit_code, job.exit_signal) == expected


@pytest.mark.parametrize(
    ("value", "short", "expected"),
    [
        (5, False, 5),
        ({"set": True, "infinite": False, "number": 5}, False, 5),
        ({"set": False, "infinite": False, "number": 0}, False, None),
        ({"set": True, "infinite": True, "number": 0}, False, None),
        (4294967294, False, None),
        ({"set": True, "infinite": False, "number": 4294967294}, False, None),
        (65534, False, 65534),
        (65534, True, None),
        (True, False, None),
        ("5", False, None),
        (None, False, None),
        (float("nan"), False, None),
        (float("inf"), False, None),
    ],
)
def test_numbers_in_both_shapes(value: Any, short: bool, expected: int | None) -> None:
    assert parse_json.number(value, short) == expected


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("", SlurmError, "cannot be read"),
        ('{"nodes": [', SlurmError, "cannot be read"),
        ("[" * 100_000, SlurmError, "cannot be read"),
        ("[]", SlurmError, "JSON object"),
        ('{"nodes": [], "errors": [{"error": "Access denied"}]}', SlurmError, "Access denied"),
        (
            '{"nodes": [], "errors": [{"error": "Unable to contact slurm controller (connect failure)"}]}',
            SlurmUnreachableError,
            "Unable to contact",
        ),
    ],
)
def test_a_bad_document_is_an_error(text: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        parse_json.document(text)


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"nodes": []},
        {"nodes": {}},
        {"nodes": [7]},
        {"nodes": [{"state": ["IDLE"]}]},
        {"nodes": [{"name": "a1", "state": []}]},
        {"nodes": [{"name": "a1"}]},
        {"sinfo": []},
        {"sinfo": [{"nodes": {"nodes": ["a1"]}}]},
    ],
)
def test_missing_nodes_names_or_states_are_errors(told: dict[str, Any]) -> None:
    with pytest.raises(SlurmError):
        parse_json.nodes(told)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
KEYS = st.sampled_from(
    [
        "name",
        "state",
        "state_flags",
        "reason",
        "reason_changed_at",
        "partitions",
        "nodes",
        "node",
        "job_id",
        "exit_code",
    ]
)


@given(
    rows=st.lists(st.dictionaries(KEYS, JSON, max_size=6), max_size=3),
    key=st.sampled_from(["nodes", "sinfo", "jobs"]),
)
def test_any_document_is_read_or_is_slurms_error(rows: list[dict[str, Any]], key: str) -> None:
    for read in (parse_json.nodes, parse_json.jobs):
        try:
            told = read({key: json.loads(json.dumps(rows))})
        except SlurmError:
            continue
        assert all(type(one).__name__ in ("NodeState", "JobInfo") for one in told)
