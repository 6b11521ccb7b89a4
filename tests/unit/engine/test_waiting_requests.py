"""What a prolog makes of a drain that waits on disk, and of faults that earlier runs left open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from slurm_guard.core.plan import Plan
from slurm_guard.engine import faults, requests, weigh

from .test_late_actions import a_request, a_run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("action", "mode", "given", "expected"),
    [
        ("drain", "enforce", ["gpu3"], "refuse"),
        ("drain", "enforce", ["gpu5"], "drain"),  # another job's GPU
        ("drain", "observe", ["gpu3"], "drain"),
        ("tell", "enforce", ["gpu3"], "tell"),  # quiet hours, a milder tier, too few runs
    ],
)
def test_a_drain_that_waits_refuses_only_while_its_fault_still_calls_for_one(
    tmp_path: Path, action: str, mode: str, given: list[str], expected: str
) -> None:
    this = a_run(tmp_path)
    this.outcome.given = given
    this.decisions[0].action, this.decisions[0].mode = action, mode
    requests.put(this.places, a_request())
    weigh.heed_waiting_requests(this)
    assert [one.action for one in this.decisions] == [expected]


@pytest.mark.parametrize(
    ("checks", "open_still"), [(None, True), ({"gpu_count": {}}, True), ({"gpu_xid": {}}, False)]
)
def test_an_open_event_of_a_check_that_was_switched_off_calls_for_nothing(
    tmp_path: Path, checks: dict[str, Any] | None, open_still: bool
) -> None:
    this = a_run(tmp_path)
    this.outcome.results = []

    def an_event(known: faults.OpenFaults) -> None:
        known.open["gpu_count.lost gpu3"].update(event=True, boot_id="b")

    faults.change(this.places, an_event)
    this.plan = Plan({"nodes": {"n1": 0}, "profiles": [{"checks": checks}]}, "n1")
    assert bool(weigh.still_open(this)) is open_still
