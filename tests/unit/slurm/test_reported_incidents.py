"""The same new reason on most nodes is one incident (a configuration, a plug-in, an upgrade): drains stop."""

from __future__ import annotations

import pytest

from slurm_guard.slurm import budget
from tests.unit.slurm.nodes import node

WIDE = {"nodes": 1000, "percent": 100.0, "per_hour": 1000, "shared_nodes": 1}
FAULT = "memory_size.low"


def ask_one_by_one(size: int, plan: dict[str, float], devices: int = 1) -> tuple[int, str]:
    """How many of `size` nodes are drained if all ask, and what the last one was told."""
    known = [node(f"m{number}") for number in range(size)]
    why = ""
    for number in range(size):
        device = f"gpu{number % devices}"
        answer = budget.room(known, f"m{number}", plan, FAULT, "device", device)
        why = answer.why
        if answer:
            known[number] = node(f"m{number}", "IDLE+DRAIN", f"SG:{FAULT} {device}")
    return len(budget.drained(known)), why


@pytest.mark.parametrize(("size", "drained"), [(3, 2), (4, 2), (5, 2), (8, 4), (20, 10), (200, 100)])
@pytest.mark.parametrize("devices", [1, 8])
def test_never_more_than_half_of_the_nodes_for_one_fault(size: int, drained: int, devices: int) -> None:
    count, why = ask_one_by_one(size, WIDE, devices)
    assert count == drained
    assert f"{FAULT} on {drained + 1} nodes is one incident" in why


@pytest.mark.parametrize("size", [1, 2])
def test_one_node_or_two_are_no_majority(size: int) -> None:
    assert ask_one_by_one(size, WIDE)[0] == size


def test_a_small_budget_stops_it_earlier_and_says_what_it_is() -> None:
    count, why = ask_one_by_one(400, {**WIDE, "nodes": 3})
    assert count == 3
    assert "no room in the budget of the cluster" in why
    assert "one incident" in why


def test_an_hour_of_the_same_fault_is_stopped_and_named() -> None:
    now = 1_800_003_000.0
    known = [node(f"m{n}", "IDLE+DRAIN", f"SG:{FAULT} gpu1") if n < 4 else node(f"m{n}") for n in range(400)]
    answer = budget.room(known, "m9", {**WIDE, "per_hour": 4}, FAULT, "device", "gpu1", now=now)
    assert not answer
    assert "of an hour" in answer.why
    assert "one incident" in answer.why


def test_another_fault_is_not_stopped_by_it() -> None:
    known = [node(f"m{n}", "IDLE+DRAIN", f"SG:{FAULT} gpu1") if n < 4 else node(f"m{n}") for n in range(8)]
    assert not budget.room(known, "m7", WIDE, FAULT, "device", "gpu0")
    assert budget.room(known, "m7", WIDE, "gpu_count.lost", "device", "gpu0")


@pytest.mark.parametrize("reason", ["Epilog error", "Prolog error"])
def test_nodes_that_another_hook_drains_count_as_ours(reason: str) -> None:
    """An epilog of somebody's plug-in fails everywhere: the guard adds no drains to it."""
    known = [node(f"m{n}", "IDLE+DRAIN", reason) if n < 2 else node(f"m{n}") for n in range(40)]
    plan = {"nodes": 2, "percent": 50.0, "per_hour": 100, "shared_nodes": 1}
    assert not budget.room(known, "m9", plan, FAULT, "device", "gpu0")
