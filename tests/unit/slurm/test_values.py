"""Numbers, times, users and exit codes as Slurm prints them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core.errors import SlurmError
from slurm_guard.slurm import values


@pytest.mark.parametrize(
    ("told", "short", "value"),
    [
        ("17", False, 17),
        ("  0 ", False, 0),
        ("65534", False, 65534),
        ("65534", True, None),
        ("65535", True, None),
        ("4294967294", False, None),
        ("4294967295", False, None),
        ("18446744073709551614", False, None),
        ("N/A", False, None),
        ("", False, None),
        ("-3", False, None),
        ("1-4", False, None),
        ("²", False, None),
        ("9" * 5000, False, None),
    ],
)
def test_number(told: str, short: bool, value: int | None) -> None:
    assert values.number(told, short) == value


@pytest.mark.parametrize(
    ("told", "name", "uid"),
    [
        ("root(0)", "root", 0),
        ("svc-guard(990)", "svc-guard", 990),
        ("1234(1234)", "", 1234),
        ("1234", "", 1234),
        ("nobody(65534)", "nobody", 65534),
        ("root", "root", None),
        ("Unknown", "", None),
        ("", "", None),
    ],
)
def test_user(told: str, name: str, uid: int | None) -> None:
    assert values.user(told) == (name, uid)


@pytest.mark.parametrize(
    ("told", "code", "sign"),
    [
        ("0:0", 0, 0),
        ("4:0", 4, 0),
        ("0:15", 0, 15),
        ("1024", 4, 0),
        ("9", 0, 9),
        ("", None, None),
        ("x:y", None, None),
    ],
)
def test_exit_status(told: str, code: int | None, sign: int | None) -> None:
    assert values.exit_status(told) == (code, sign)


@given(st.integers(0, 4_000_000_000))
def test_a_printed_time_is_read_back(moment: int) -> None:
    printed = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    assert values.seconds(f" {printed} ") == moment


@pytest.mark.parametrize("told", ["Unknown", "N/A", "NONE", "", "yesterday", "2030-13-01T00:00:00"])
def test_what_is_no_time(told: str) -> None:
    assert values.seconds(told) is None


@given(st.text(max_size=40))
def test_any_text_is_read_without_an_error(told: str) -> None:
    values.number(told)
    values.exit_status(told)
    values.user(told)
    values.seconds(told)
    assert "\n" not in values.one_line(told)


@pytest.mark.parametrize("told", ["", "abc", "(null)", "4294967294"])
def test_a_job_without_an_id_is_an_error(told: str) -> None:
    with pytest.raises(SlurmError, match="job id was expected"):
        values.job_number(told)


@pytest.mark.parametrize(
    ("state", "ended"),
    [
        ("PENDING", False),
        ("RUNNING", False),
        ("RUNNING+COMPLETING", False),
        ("COMPLETED", True),
        ("CANCELLED by 0", True),
        ("NODE_FAIL", True),
        ("", False),
    ],
)
def test_only_an_ended_job_has_an_exit_code(state: str, ended: bool) -> None:
    assert values.ended(state) is ended
