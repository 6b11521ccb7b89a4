"""The only comparison code: references, fixed limits, counts and growth."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_guard.core.expectation import Expectation

RATE = {"ib_rate": [400, -0.05, None, "Gb/s"]}
VALUES = [
    (RATE, 400, {}, "pass"),
    (RATE, 380, {}, "pass"),
    (RATE, 379.9, {}, "fail"),
    (RATE, 1e9, {}, "pass"),
    ({"ib_rate": [-2, None, 0.5, "Gb/s"]}, -0.9, {}, "fail"),
    ({"ib_rate": [400, -0.05, None, "GB/s"]}, 400, {}, "unknown"),
    ({}, 400, {}, "skip"),
    ({}, None, {}, "skip"),
    (RATE, None, {}, "skip"),
    (RATE, "N/A", {}, "unknown"),
    (RATE, float("nan"), {}, "unknown"),
    (RATE, float("inf"), {}, "unknown"),
    ({}, float("-inf"), {"fail": 8, "below": True}, "unknown"),
    (RATE, 10**400, {}, "pass"),
    (RATE, True, {}, "unknown"),
    ({}, 91, {"warn": 85, "fail": 90}, "fail"),
    ({}, 90, {"warn": 85, "fail": 90}, "warn"),
    ({}, 85, {"warn": 85, "fail": 90}, "pass"),
    ({}, 7, {"fail": 8, "below": True}, "fail"),
    ({}, 8, {"fail": 8, "below": True}, "pass"),
]


@pytest.mark.parametrize(("references", "value", "limits", "status"), VALUES)
def test_values(references: dict[str, Any], value: Any, limits: dict[str, Any], status: str) -> None:
    found = Expectation(references)("ib_rate", value, "Gb/s", device="mlx5_0/1", **limits)
    assert found.status == status


COUNTS = [
    (8, 8, "pass"),
    (7, 8, "fail"),
    (0, 8, "fail"),
    (9, 8, "warn"),
    (0, 0, "skip"),
    (0, None, "skip"),
    (3, None, "skip"),
]


@pytest.mark.parametrize(("found", "expected", "status"), COUNTS)
def test_counts_are_judged_first(found: int, expected: int | None, status: str) -> None:
    assert Expectation().count("ib_ports", found, expected).status == status


def test_a_count_takes_the_class_s_expected_value() -> None:
    assert Expectation(expected={"gpus": 8}).count("gpus", 7, None).status == "fail"


def test_a_reference_that_is_missed_is_told_with_both_numbers() -> None:
    found = Expectation(RATE)("ib_rate", 200, "Gb/s", device="mlx5_0/1")
    assert found.message == "ib_rate 200 Gb/s, expected at least 380 Gb/s"
    assert (found.value, found.reference) == (200, [400, -0.05, None])


GROWTH = [
    ({"symbol_errors p1": [10, 100.0]}, 15, (5, 60.0)),
    ({"symbol_errors p1": [10, 100.0]}, 10, (0, 60.0)),
    ({"symbol_errors p1": [10, 100.0]}, 3, None),
    ({}, 15, None),
    ({"symbol_errors p1": [10, 100.0]}, None, None),
]


@pytest.mark.parametrize(("before", "value", "wanted"), GROWTH)
def test_counters_are_judged_by_change(
    before: dict[str, Any], value: Any, wanted: tuple[float, float] | None
) -> None:
    expect = Expectation(before=before, now=160.0)
    grown = expect.growth("symbol_errors", value, "p1")
    assert (grown and (grown.delta, grown.seconds)) == wanted
    assert expect.growths == ({"symbol_errors p1": wanted[0]} if wanted and wanted[0] else {})
