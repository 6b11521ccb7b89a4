"""Coming back: long enough, not too often, and watched afterwards."""

from __future__ import annotations

import time
import types
from pathlib import Path
from typing import Any

import pytest

from slurm_guard.core.paths import Places
from slurm_guard.core.plan import Plan
from slurm_guard.engine import coming_back, faults
from slurm_guard.engine.returning import Returning

from .conftest import NodeRoot
from .test_hook import write_plan


@pytest.mark.parametrize(
    ("runs", "at", "seconds", "enough"),
    [
        ([(True, True, 100)], 400, 300, True),
        ([(True, True, 100)], 399, 300, False),
        ([(True, False, 100), (True, True, 200)], 450, 300, False),  # the first did not count
        ([(True, True, 100), (False, True, 200), (True, True, 300)], 550, 300, False),
        ([(True, True, 100), (False, False, 200)], 900, 0, False),  # a prolog saw it again
        ([(True, True, 5000), (True, True, 100)], 450, 300, True),  # the clock was put back
        ([(True, True, 5000), (True, True, 100)], 399, 300, False),
        ([(True, True, 100)], 100, 0, True),
        ([], 100, 0, False),
    ],
)
def test_how_long_a_node_is_clean(
    runs: list[tuple[bool, bool, float]], at: float, seconds: float, enough: bool
) -> None:
    found = Returning()
    for is_clean, counts, now in runs:
        found.note_run(is_clean, counts, now)
    assert found.is_clean_for(seconds, at) is enough


def test_a_relapse_is_the_same_fault_within_the_watch() -> None:
    found = Returning()
    found.note_return(["ib_link.down mlx5_1/1", "gpu_pcie.width gpu3"], 1000.0)
    assert found.relapses(["ib_link.down mlx5_1/1", "ib_link.down mlx5_2/1"], 600, 1600.0) == [
        "ib_link.down mlx5_1/1"
    ]
    assert found.relapses(["gpu_pcie.width gpu3"], 600, 1600.0) == ["gpu_pcie.width gpu3"]
    assert found.relapses(["gpu_pcie.width gpu3"], 600, 1601.0) == []
    assert found.relapses(["gpu_pcie.width gpu3"], 600, 999.0) == []  # the clock was put back
    assert found.relapses(["gpu_pcie.width gpu3"], 0, 1000.5) == []
    found.stay_after_relapse(["gpu_pcie.width gpu3"], 1240.0)
    assert found.stays == "gpu_pcie.width gpu3 came back 240 s after the node's return"


@pytest.mark.parametrize(
    ("returns", "flaps", "stays"),
    [
        ([100.0, 200.0], 3, ""),
        ([100.0, 200.0, 300.0], 3, "the node has returned 3 times within 2 h"),
        ([100.0, 200.0, 9000.0], 3, ""),
        ([100.0, 200.0, 300.0], 0, ""),
        ([100.0], 1, "the node has returned 1 times within 2 h"),
    ],
)
def test_a_node_that_flaps_stays(returns: list[float], flaps: int, stays: str) -> None:
    found = Returning()
    for at in returns:
        found.note_return(["a b"], at)
    found.stay_if_it_flaps(flaps, 7200, returns[-1] + 10)
    assert found.stays == stays


def test_the_memory_is_bounded_and_survives_on_disk(tmp_path: Path) -> None:
    places = Places(str(tmp_path))

    def many(found: faults.OpenFaults) -> None:
        for at in range(100):
            found.returning.note_return(["x y"], float(at))
        found.returning.stays = "because"

    faults.change(places, many)
    kept = faults.load(places).returning
    assert (len(kept.returns), kept.returns[-1]["at"], kept.stays) == (32, 99.0, "because")
    kept.forget()
    assert kept.as_dict() == {}


def relapse(mode: str, drained: bool) -> tuple[faults.OpenFaults, types.SimpleNamespace]:
    """A fault that is back within the watch, in a run that asks for a drain or only observes."""
    found, plan = (
        faults.OpenFaults(),
        Plan({"profiles": [{"modes": [["*", "*", mode]]}], "nodes": {"n1": 0}}, "n1"),
    )
    found.returning.note_return(["ib_link.down mlx5_1/1"], time.time() - 60)
    found.open = {"ib_link.down mlx5_1/1": {"check": "ib_link", "runs": 1}}
    found.drained = {"reason": "SG:ib_link.down mlx5_1/1"} if drained else None
    run: Any = types.SimpleNamespace(plan=plan, stays=None, requests=[{}] if mode == "enforce" else [])
    coming_back.note_run(run, found, counts=True)
    return found, run


def test_a_relapse_that_is_only_observed_makes_nothing_stay() -> None:
    found, run = relapse("observe", drained=False)
    assert (found.returning.stays, run.stays) == ("", None)


@pytest.mark.parametrize("drained", [True, False])
def test_a_relapse_whose_drain_was_held_leaves_no_word_for_later_drains(drained: bool) -> None:
    found, run = relapse("enforce", drained)
    assert found.returning.stays
    assert run.stays["outcome"] == "held"
    found.open = {}
    coming_back.note_run(run, found, counts=True)
    assert bool(found.returning.stays) is drained


@pytest.mark.parametrize(
    "content", ["7", "[]", '{"returns": 7}', '{"returns": [7]}', '{"clean_since": "x"}', '{"stays": 7}']
)
def test_a_foreign_memory_costs_no_run(node: NodeRoot, content: str) -> None:
    write_plan(node)
    path = node.root / "var/lib/slurm-guard/faults.json"
    path.write_text(f'{{"version": 1, "open": {{}}, "returning": {content}}}')
    node.run("healthcheck")
    (record,) = node.records()
    assert "engine" not in record["coverage"]
