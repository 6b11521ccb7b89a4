"""Slurm's forms of a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.cli import timeforms

ZONE = timezone(timedelta(hours=2))
NOW = datetime(2026, 11, 30, 13, 45, 10, tzinfo=ZONE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", "2026-11-30T11:45:10"),
        ("now-7days", "2026-11-23T11:45:10"),
        ("now-1day", "2026-11-29T11:45:10"),
        ("now+90", "2026-11-30T11:46:40"),
        ("now-2hours", "2026-11-30T09:45:10"),
        ("now-10min", "2026-11-30T11:35:10"),
        ("now+1week", "2026-12-07T11:45:10"),
        ("NOW-1d", "2026-11-29T11:45:10"),
        ("today", "2026-11-29T22:00:00"),
        ("midnight", "2026-11-29T22:00:00"),
        ("tomorrow", "2026-11-30T22:00:00"),
        ("noon", "2026-11-30T10:00:00"),
        ("fika", "2026-11-30T13:00:00"),
        ("teatime", "2026-11-30T14:00:00"),
        ("10:30", "2026-11-30T08:30:00"),
        ("10:30:05", "2026-11-30T08:30:05"),
        ("12:15am", "2026-11-29T22:15:00"),
        ("12:15 PM", "2026-11-30T10:15:00"),
        ("2026-11-30", "2026-11-29T22:00:00"),
        ("2026-11-30T10:00", "2026-11-30T08:00:00"),
        ("2026-11-30 10:00:07", "2026-11-30T08:00:07"),
        ("11/30", "2026-11-29T22:00:00"),
        ("11/30/25", "2025-11-29T22:00:00"),
        ("11.30.2025", "2025-11-29T22:00:00"),
        ("1130", "2026-11-29T22:00:00"),
        ("113025", "2025-11-29T22:00:00"),
        ("11/30/26-10:00", "2026-11-30T08:00:00"),
        ("2026-11-30T10:00:00.123Z", "2026-11-30T10:00:00.123000"),
        ("2026-11-30T10:00-05:00", "2026-11-30T15:00:00"),
        ("uts1700000000", "2023-11-14T22:13:20"),
    ],
)
def test_forms(text: str, expected: str) -> None:
    assert timeforms.parse(text, NOW) == datetime.fromisoformat(expected).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "yesterdayish", "now-", "now-5fortnights", "now--5", "13/40", "2026-02-30", "25:00",
        "13:00pm", "0:30am", "2026-11-30T", "T10:00", "now-999999999weeks", "uts999999999999",
        "2026-11-30T10:00+99:00", "１0:30",
    ],
)  # fmt: skip
def test_refusals_name_the_text_and_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a time.*expected now-7days"):
        timeforms.parse(text, NOW)


def test_local_times_follow_the_summer_time_of_their_day() -> None:
    now = datetime(2026, 7, 1, 12, 0, tzinfo=ZoneInfo("Europe/Berlin"))
    assert timeforms.parse("2026-01-15T12:00", now) == datetime(2026, 1, 15, 11, 0, tzinfo=UTC)
    assert timeforms.parse("2026-06-15T12:00", now) == datetime(2026, 6, 15, 10, 0, tzinfo=UTC)


@given(st.text(max_size=40))
def test_any_text_is_a_time_or_a_value_error(text: str) -> None:
    try:
        found = timeforms.parse(text, NOW)
    except ValueError:
        return
    assert found.tzinfo is UTC


@given(st.text(alphabet="now+-0123456789daysTZ:/. midght", max_size=24))
def test_texts_that_look_like_times_never_crash(text: str) -> None:
    try:
        found = timeforms.parse(text, NOW)
    except ValueError:
        return
    assert found.tzinfo is UTC


@given(st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2099, 12, 31)), st.sampled_from("T "))  # noqa: DTZ001
def test_iso_times_round_trip(moment: datetime, between: str) -> None:
    moment = moment.replace(microsecond=0, tzinfo=ZONE)
    text = moment.strftime(f"%Y-%m-%d{between}%H:%M:%S")
    assert timeforms.parse(text, NOW) == moment


@given(st.integers(0, 10**5), st.sampled_from(["", "s", "minutes", "hours", "days"]), st.sampled_from("+-"))
def test_relative_times_are_symmetric(count: int, unit: str, sign: str) -> None:
    there = timeforms.parse(f"now{sign}{count}{unit}", NOW)
    back = timeforms.parse(f"now{'-' if sign == '+' else '+'}{count}{unit}", there)
    assert back == NOW


def test_an_option_that_is_no_time_is_a_usage_error() -> None:
    assert timeforms.option(None, "-S") is None
    assert timeforms.option("2026-11-30T10:00Z", "-S") == datetime(2026, 11, 30, 10, tzinfo=UTC)
    with pytest.raises(click.BadParameter) as caught:
        timeforms.option("soon", "-S")
    assert caught.value.param_hint == "-S"
