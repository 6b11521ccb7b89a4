"""Bodies: each line for itself, nobody for somebody else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.collector.answers import RefusalError
from slurm_guard.collector.bodies import lines_of
from slurm_guard.collector.limits import MOST_RECORDS
from slurm_guard.collector.service import Collector
from tests.unit.collector.kit import Ask, body_of, client, record


def test_good_and_bad_lines_are_told_apart() -> None:
    good, foreign, elsewhere = record(), record("n2"), record(cluster="other")
    torn = b'{"schema":"1.0","run_id":"' + b"ab" * 16 + b'","kind'
    body = b"\n".join([body_of(good).strip(), b"", torn, b"garbage", body_of(foreign, elsewhere)])
    lines = lines_of(body, "n1", "lab")
    assert [(one.number, one.run_id, one.record is not None) for one in lines] == [
        (1, good["run_id"], True),
        (3, "ab" * 16, False),
        (4, None, False),
        (5, foreign["run_id"], False),
        (6, elsewhere["run_id"], False),
    ]
    assert "node n2, sent by n1: a node speaks only for itself" in lines[3].why
    assert "cluster other; this collector serves lab" in lines[4].why


@pytest.mark.parametrize(
    ("of_record", "ours", "taken"), [("", "lab", True), ("lab", "", True), ("x", "lab", False)]
)
def test_a_cluster_that_nobody_named_fits(of_record: str, ours: str, taken: bool) -> None:
    (line,) = lines_of(body_of(record(cluster=of_record)), "n1", ours)
    assert (line.record is not None) == taken


@pytest.mark.parametrize("body", [b"x\n" * (MOST_RECORDS + 1), b"\n" * 10_000, b"\n".join([b"x"] * 10_000)])
def test_too_many_lines_are_refused_before_they_are_read(body: bytes) -> None:
    with pytest.raises(RefusalError, match="at most 1000 records") as caught:
        lines_of(body, "n1", "lab")
    assert caught.value.status == 413


def test_as_many_as_allowed_are_taken() -> None:
    body = body_of(*(record() for _ in range(MOST_RECORDS)))
    assert sum(one.record is not None for one in lines_of(body, "n1", "lab")) == MOST_RECORDS


@given(
    st.binary(max_size=400)
    | st.lists(st.text(max_size=40), max_size=9).map(lambda lines: json.dumps(lines).encode())
)
def test_any_body_is_lines(body: bytes) -> None:
    for line in lines_of(body, "n1", "lab"):
        assert (line.record is None) == bool(line.why)
        assert line.record is None or line.record.data["node"] == "n1"


def test_the_answer_names_lines_and_run_ids(collector: Collector) -> None:
    one, two = record(), record()
    body = body_of(one) + b"noise\n" + body_of(record("n2"), two, one, {**two, "uptime_s": 5})
    reply = Ask(body=body).send(client(collector)).json()
    assert reply["acknowledged"] == [one["run_id"], two["run_id"], one["run_id"]]
    assert [(told["line"], told["run_id"] is None) for told in reply["refused"]] == [
        (2, True),
        (3, False),
        (6, False),
    ]
    assert "another record with this run_id" in reply["refused"][2]["why"]
    assert reply["takes_over"] == []


def test_a_thousand_lines_of_garbage_cost_nobody_else(collector: Collector) -> None:
    reply = Ask(body=b"\x00garbage{\xff\n" * MOST_RECORDS).send(client(collector)).json()
    assert reply["acknowledged"] == []
    assert len(reply["refused"]) == MOST_RECORDS
    assert Ask(body=body_of(record())).send(client(collector)).json()["refused"] == []
