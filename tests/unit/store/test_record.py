"""The record reader: whatever the bytes, a Record or a RecordError, and what it accepts fits the tables."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core.errors import RecordError
from slurm_guard.store import open_store, schema
from slurm_guard.store.record import LARGEST, Record, milliseconds, parse
from slurm_guard.store.writer import Writer, Written
from tests.unit.store.factory import action, action_record, at, finding, job, ms, run

FULL = run(
    "epilog",
    "gx7",
    30,
    finding("gpu_xid.48", device="gpu2", value=1, unit="", reference=[0, None, 0], event=True, since=at(20)),
    allocation=job(31, "gx7", 0, exit_code="0:0", start_time=1_804_579_200),
    values={"gpu_temperature gpu0": 41},
    growths={"ib_symbol_errors mlx5_0/1": 3},
    actions=[action("drain", 30, "gpu_xid.48", "gpu2")],
)


def read(record: Any) -> Record:
    return parse(json.dumps(record).encode())


def test_a_whole_record_is_read() -> None:
    record = read(FULL)
    assert (record.kind, record.started, record.run_id.hex()) == ("run", ms(30), FULL["run_id"])


@pytest.mark.parametrize("version", ["0.9", "1.0", "1.7", "2.0"])
def test_neighbouring_majors_and_unknown_keys_are_read(version: str) -> None:
    assert read({**FULL, "schema": version, "weather": {"deep": [1, {"er": None}]}}).data["weather"]


def test_an_action_record_is_read() -> None:
    assert (
        read(action_record("gx7", 3, action("resume", 3, "gpu_xid.48"), by="cli", user="root")).kind
        == "action"
    )


REFUSED = {
    "future major": ({"schema": "3.0"}, "schema"),
    "schema is a number": ({"schema": 1.0}, "schema"),
    "foreign kind": ({"kind": "invoice"}, "kind"),
    "kind is a list": ({"kind": ["run"]}, "kind"),
    "short run_id": ({"run_id": "abc"}, "run_id"),
    "run_id with a path": ({"run_id": "../../../etc/passwd/aaaaaaaaaaaa"}, "run_id"),
    "no node": ({"node": None}, "node"),
    "empty node": ({"node": ""}, "node"),
    "started is a number": ({"started": 5}, "started"),
    "started is not a time": ({"started": "yesterday"}, "started"),
    "started in the year 10000": ({"started": "10000-01-01T00:00:00Z"}, "started"),
    "hook is a sentence": ({"hook": "Robert'); DROP TABLE runs"}, "hook"),
    "status of no kind": ({"status": "fine"}, "status"),
    "drill is a text": ({"drill": "no"}, "drill"),
    "elapsed is true": ({"elapsed_ms": True}, "elapsed_ms"),
    "uptime is huge": ({"uptime_s": 10**30}, "uptime_s"),
    "passed is a text": ({"passed": "gpu_ecc"}, "passed"),
    "passed holds a number": ({"passed": ["gpu_ecc", 3]}, "passed"),
    "a value is a text": ({"values": {"gpu_temperature gpu0": "34"}}, "values"),
    "a growth is true": ({"growths": {"ib_symbol_errors": True}}, "growths"),
    "results is an object": ({"results": {}}, "results"),
    "a result without findings": ({"results": [{"check": "gpu_ecc", "status": "fail"}]}, "findings"),
    "a finding is a text": ({"results": [{"check": "a", "status": "fail", "findings": ["x"]}]}, "finding"),
    "a finding without status": (
        {"results": [{"check": "a", "status": "fail", "findings": [{"fault": "a"}]}]},
        "status",
    ),
    "a message is a list": (
        {"results": [{"check": "a", "status": "fail", "findings": [{**finding("a"), "message": []}]}]},
        "message",
    ),
    "job_id is a text": ({"allocation": {"job_id": "31"}}, "job_id"),
    "job_id is huge": ({"allocation": {"job_id": 2**80}}, "job_id"),
    "job_id is negative": ({"allocation": {"job_id": -1}}, "job_id"),
    "gpus is a number": ({"allocation": {"job_id": 3, "gpus": 7}}, "gpus"),
    "opened_at is not a time": ({"allocation": {"job_id": 3, "opened_at": "soon"}}, "opened_at"),
    "others holds a number": ({"others": [7]}, "others"),
    "machine holds a list": ({"machine": {"serial": ["a"]}}, "machine"),
    "an action is a text": ({"actions": ["drain"]}, "action"),
    "an action without outcome": ({"actions": [{"action": "drain"}]}, "outcome"),
    "an action's calls are a text": ({"actions": [action("drain", 1, "a", calls="2")]}, "calls"),
    "a NUL character": ({"cluster": "a\0b"}, "NUL"),
    "a NUL character deep inside": ({"weather": [{"a\0": 1}]}, "NUL"),
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED.keys())
def test_what_does_not_fit_is_refused_and_the_message_names_it(change: tuple[dict[str, Any], str]) -> None:
    read(FULL)  # types that were found right are remembered: that must not let a wrong one pass
    with pytest.raises(RecordError, match=change[1]):
        read({**FULL, **change[0]})


WHOLE = json.dumps(FULL).encode()
BYTES = {
    "nothing": b"",
    "half": WHOLE[: len(WHOLE) // 2],
    "all but the last byte": WHOLE[:-1],
    "zeros": bytes(4096),
    "a zero inside": WHOLE.replace(b'"aurora"', b'"auro\0ra"'),
    "not UTF-8": WHOLE.replace(b'"aurora"', b'"\xff\xfe"'),
    "UTF-16": json.dumps(FULL).encode("utf-16"),
    "a lone surrogate": WHOLE.replace(b'"aurora"', b'"\\ud800"'),
    "NaN": WHOLE.replace(b"41.5", b"NaN"),
    "infinity": WHOLE.replace(b"41.5", b"Infinity"),
    "a number beyond float": WHOLE.replace(b"41.5", b"1e999"),
    "a number of 5,000 digits": WHOLE.replace(b"41.5", b"9" * 5000),
    "deep nesting": b"[" * 100_000,
    "deep nesting inside": WHOLE[:-1] + b', "x": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
    "a list": b"[1, 2]",
    "a number": b"7",
    "two records": WHOLE + WHOLE,
    "too large": WHOLE + b" " * LARGEST,
}


@pytest.mark.parametrize("content", BYTES.values(), ids=BYTES.keys())
def test_bytes_that_are_no_record_are_refused(content: bytes) -> None:
    with pytest.raises(RecordError):
        parse(content)


def test_escapes_that_only_look_like_nul_are_text() -> None:
    assert read({**FULL, "cluster": "a\\u0000b \U0001f525"}).data["cluster"] == "a\\u0000b \U0001f525"


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_read(content: bytes) -> None:
    with pytest.raises(RecordError):
        parse(content)


@given(st.integers(0, len(WHOLE) - 1), st.binary(min_size=0, max_size=3))
def test_a_damaged_record_is_refused_or_read(position: int, damage: bytes) -> None:
    try:
        record = parse(WHOLE[:position] + damage + WHOLE[position + len(damage) :])
    except RecordError:
        return
    assert isinstance(record, Record)


SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
JSON = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
)
ACTIONS = action_record("gx7", 3, action("resume", 3, "gpu_xid.48"), by="cli", user="root", exit=75)
TOP_KEYS = sorted({*FULL, *ACTIONS})
PATHS = (
    *((key,) for key in TOP_KEYS),
    *(("allocation", key) for key in FULL["allocation"]),
    *(("machine", key) for key in FULL["machine"]),
    *(("plan", key) for key in FULL["plan"]),
    *(("actions", 0, key) for key in FULL["actions"][0]),
    *(("results", 0, key) for key in FULL["results"][0]),
    *(("results", 0, "findings", 0, key) for key in FULL["results"][0]["findings"][0]),
    ("values", "gpu_temperature gpu0"),
    ("growths", "ib_symbol_errors mlx5_0/1"),
)


def with_value(path: tuple[Any, ...], value: Any, record: Any = FULL) -> Any:
    changed = json.loads(json.dumps(record))
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed


@given(st.sampled_from(PATHS), JSON)
def test_whatever_the_reader_accepts_the_store_takes(
    tmp_path_factory: pytest.TempPathFactory, path: tuple[Any, ...], value: Any
) -> None:
    check_taken(tmp_path_factory, with_value(path, value))


@given(st.sampled_from(TOP_KEYS), JSON)
def test_so_it_is_with_action_records(tmp_path_factory: pytest.TempPathFactory, key: str, value: Any) -> None:
    check_taken(tmp_path_factory, with_value((key,), value, ACTIONS))


#: Keys of the other kind of record mean nothing here, so nobody checks them: they must not reach a column.
FOREIGN = [
    {**FULL, "user": {"a": 1}},
    {**FULL, "parent": 5},
    {**FULL, "parent": "not hex"},
    {**ACTIONS, "mode": {"a": 1}},
    {**ACTIONS, "allocation": "x"},
    {**ACTIONS, "passed": 3},
    {**ACTIONS, "check_set": [1]},
]


@pytest.mark.parametrize("record", FOREIGN)
def test_keys_of_the_other_kind_are_kept_as_unknown_ones(
    tmp_path_factory: pytest.TempPathFactory, record: dict[str, Any]
) -> None:
    assert check_taken(tmp_path_factory, record).new == [0]


def check_taken(tmp_path_factory: pytest.TempPathFactory, record: Any) -> Written:
    """A record that the reader accepts is written or refused; none of its values stops the writer.

    Each gets an id of its own: under a known one it would be refused before its rows are made.
    """
    try:
        accepted = parse(json.dumps({**record, "run_id": os.urandom(16).hex()}).encode())
    except (RecordError, UnicodeEncodeError):
        return Written([], [], [], 0)
    with open_store(tmp_path_factory.getbasetemp() / "reader" / "store.sqlite") as store:
        written = Writer(store).write([accepted])
    assert len(written.new) + len(written.duplicates) + len(written.refused) == 1
    return written


def test_a_number_that_would_not_fit_once_added_is_refused() -> None:
    with pytest.raises(RecordError, match="elapsed_ms"):
        read({**FULL, "elapsed_ms": 2**63 - 1})


def test_the_exit_of_a_refusal_is_the_action_records(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("exit") / "store.sqlite"
    with open_store(path) as store:
        Writer(store).write([read(ACTIONS)])
        with store.read() as connection:
            row = connection.execute(schema.runs.select()).one()
    assert (row.exit, row.extra, row.user) == (75, None, "root")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01.500Z", 1500),
        ("1970-01-01T00:00:01.500+00:00", 1500),
        ("1970-01-01T01:00:01+01:00", 1000),
        ("1970-01-01T00:00:01", 1000),
    ],
)
def test_times_are_utc_milliseconds(text: str, expected: int) -> None:
    assert milliseconds(text, "at") == expected


@pytest.mark.parametrize(
    "text", ["1969-12-31T23:59:59Z", "2200-01-01T00:00:00Z", "0001-01-01", "soon", 5, None]
)
def test_what_is_no_time_of_a_record_is_refused(text: Any) -> None:
    with pytest.raises(RecordError, match="at is "):
        milliseconds(text, "at")
