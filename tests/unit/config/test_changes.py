"""What differs between two plans, in words."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_guard.config.changes import describe_changes


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (300, 0.0, "grace_s: 300 -> 0"),
        (300.0, 300.5, "grace_s: 300 -> 300.5"),
        (None, 60.0, "grace_s: nothing -> 60"),
    ],
)
def test_numbers_are_told_as_people_write_them(before: Any, after: Any, said: str) -> None:
    old, new = ({"hash": str(value), "grace_s": value, "default_profile": {}} for value in (before, after))
    assert describe_changes(old, new) == [said]
