"""Findings as they stand in a run record."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_guard.core.outcome import Finding


@pytest.mark.parametrize("value", [0, 0.0, -1, 7, "x", [0]])
def test_a_value_of_zero_is_a_value(value: Any) -> None:
    assert Finding("fail", "none is there", value=value).as_dict()["value"] == value


@pytest.mark.parametrize("fields", [{}, {"value": None, "event": False, "unit": ""}])
def test_what_is_absent_is_left_out(fields: dict[str, Any]) -> None:
    assert Finding("warn", **fields).as_dict() == {"fault": "", "status": "warn"}


def test_a_field_that_does_not_exist_is_told() -> None:
    with pytest.raises(TypeError, match="no field named colour"):
        Finding("warn", colour="red")
