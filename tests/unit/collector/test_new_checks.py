"""A check that is new to the plan is held back by the collector too, whatever a node's version asks for."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slurm_guard.collector.node_plans import NodePlans


@pytest.mark.parametrize(("age_s", "mode"), [(10, "observe"), (90, "enforce")])
def test_the_plan_of_a_node_knows_what_is_new(age_s: float, mode: str) -> None:
    bundle = {
        "check_since": {"heat": time.time() - age_s},
        "new_check_s": 60,
        "profiles": [{"modes": [["*", "*", "enforce"]]}],
        "nodes": {"g1": 0},
    }
    file = SimpleNamespace(look=lambda: SimpleNamespace(hash="h", body=json.dumps(bundle).encode()))
    found = NodePlans(cast("Any", file)).of("g1")
    assert found is not None
    assert (found.mode("heat", "drain"), found.mode("cold", "drain")) == (mode, "enforce")
