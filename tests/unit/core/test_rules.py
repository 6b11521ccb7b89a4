"""The site's rules: which fit, which one counts, what time it is."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core import rules

XID = "gpu_xid.31"


@pytest.mark.parametrize(
    ("pattern", "fault", "fits"),
    [
        ("gpu_xid.31", "gpu_xid.31", True),
        ("gpu_xid.3", "gpu_xid.31", False),
        ("gpu_xid", "gpu_xid.31", True),
        ("gpu_xi", "gpu_xid.31", False),
        ("gpu_xid.3*", "gpu_xid.31", True),
        ("gpu_*", "gpu_xid.31", True),
        ("*", "memory_size", True),
        ("ib_*", "gpu_xid.31", False),
        ("", "gpu_xid.31", False),
    ],
)
def test_which_faults_a_pattern_names(pattern: str, fault: str, fits: bool) -> None:
    assert rules.names_fault(pattern, fault) is fits


@pytest.mark.parametrize(
    ("rule", "hook", "idle", "fits"),
    [
        ({}, "prolog", None, True),
        ({"hooks": ["healthcheck"]}, "healthcheck", True, True),
        ({"hooks": ["healthcheck"]}, "epilog", True, False),
        ({"hooks": []}, "epilog", True, False),
        ({"node": "idle"}, "healthcheck", True, True),
        ({"node": "idle"}, "healthcheck", False, False),
        ({"node": "idle"}, "healthcheck", None, False),
        ({"node": "allocated"}, "healthcheck", False, True),
        ({"node": "allocated"}, "healthcheck", True, False),
        ({"node": "allocated"}, "healthcheck", None, False),
    ],
)
def test_conditions(rule: dict[str, Any], hook: str, idle: bool | None, fits: bool) -> None:
    found = rules.treatment([{"fault": XID, "tier": "NOTE", **rule}], XID, hook, idle)
    assert (found.tier == "NOTE") is fits


def test_of_each_effect_the_last_rule_that_gives_it_counts() -> None:
    several = [
        {"fault": "*", "tier": "WARN", "runs": 4, "of": 6, "quiet": ["22:00-06:00"], "source": "a.toml:1"},
        {"fault": "gpu_xid", "tier": "DRAIN", "source": "a.toml:9"},
        {"fault": "ib_link", "tier": "NOTE", "source": "a.toml:12"},
        {"fault": XID, "runs": 2, "action": "drain", "source": "b.toml:3"},
    ]
    found = rules.treatment(several, XID, "epilog", None)
    assert (found.tier, found.runs, found.of, found.action) == ("DRAIN", 2, 2, "drain")
    assert found.quiet == ["22:00-06:00"]
    assert found.sources == ["a.toml:1", "a.toml:9", "b.toml:3"]


def test_without_rules_nothing_is_said() -> None:
    found = rules.treatment([], XID, "epilog", None)
    assert (found.tier, found.action, found.runs, found.minimum_s) == (None, None, None, 0.0)
    assert (found.escalate, found.quiet, found.sources) == ({}, [], [])


@pytest.mark.parametrize(
    ("window", "time", "until"),
    [
        ("22:00-06:00", "21:59", ""),
        ("22:00-06:00", "22:00", "06:00"),
        ("22:00-06:00", "00:00", "06:00"),
        ("22:00-06:00", "05:59", "06:00"),
        ("22:00-06:00", "06:00", ""),
        ("9:30-17:00", "09:29", ""),
        ("9:30-17:00", "12:00", "17:00"),
        ("00:00-24:00", "13:00", "24:00"),
        ("18:00-24:00", "23:59", "24:00"),
        ("18:00-24:00", "00:00", ""),
        ("08:00-08:00", "20:00", "08:00"),
    ],
)
def test_quiet_windows(window: str, time: str, until: str) -> None:
    assert rules.quiet_until([window], rules.minutes(time)) == until


def test_the_first_window_that_holds_says_the_end() -> None:
    assert rules.quiet_until(["01:00-02:00", "12:00-14:00"], rules.minutes("12:30")) == "14:00"
    assert rules.quiet_until([], 0) == ""


@pytest.mark.parametrize(
    "text", ["", "6", "6:0", "24:01", "25:00", "12:60", "-1:00", "1200", "ab:cd", "١٢:٠٠", "12:00:00"]
)
def test_what_is_no_time_of_day(text: str) -> None:
    with pytest.raises(ValueError, match="no time of day"):
        rules.minutes(text)


@given(st.integers(0, 1439), st.integers(0, 1439))
def test_a_window_holds_its_start_and_not_its_end(start: int, end: int) -> None:
    window = f"{start // 60:02}:{start % 60:02}-{end // 60:02}:{end % 60:02}"
    assert rules.quiet_until([window], start)
    assert (not rules.quiet_until([window], end)) is (start != end)


@given(st.text(max_size=12))
def test_any_text_is_a_time_or_a_plain_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert 0 <= rules.minutes(text) < rules.DAY_MIN


def test_a_rule_of_a_plan_keeps_what_a_newer_version_adds() -> None:
    rule = {"fault": XID, "tier": "WARN", "lunar_phase": "full", "source": "x:1"}
    assert rules.checked(rule) == rule


@pytest.mark.parametrize(
    "rule",
    [
        {},
        {"tier": "WARN"},
        {"fault": XID, "quiet": ["noon"]},
        {"fault": XID, "escalate": {"after": 2}},
        {"fault": XID, "escalate": 3},
        {"fault": XID, "minimum_s": "long"},
        {"fault": XID, "runs": None},
        ["fault"],
        None,
    ],
)
def test_a_rule_that_cannot_be_applied_makes_the_plan_foreign(rule: Any) -> None:
    with pytest.raises((LookupError, TypeError, ValueError)):
        rules.checked(rule)
