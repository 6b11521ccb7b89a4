"""What the answer of a node's healthcheck proves, and what it does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core.plan import Plan
from slurm_guard.slurm.command import Reply
from slurm_guard.verify.proof import judge

PLAN = Plan({"tiers": {"fan_speed.slow": "WARN"}}, "g1")


def result(status: str, fault: str, tier: str = "DRAIN") -> dict[str, Any]:
    found = {"status": status, "fault": fault, "device": "fan2", "tier": tier, "message": "seen"}
    return {"check": fault.partition(".")[0], "status": status, "findings": [found]}


def answer(*results: dict[str, Any], **fields: Any) -> bytes:
    whole = {"kind": "check_run", "node": "g1", "plan": {"state": "ok"}, "passed": ["heat"], "skipped": []}
    return json.dumps({**whole, "results": list(results), **fields}).encode()


@pytest.mark.parametrize(
    ("output", "clean", "says"),
    [
        (answer(), True, "proven: 1 check passed"),
        (answer(result("fail", "fan_count.few")), False, "found fan_count.few fan2"),
        (answer(result("timeout", "fan_count.hung")), False, "found fan_count.hung fan2"),
        (answer(result("fail", "fan_count.few", "NOTE")), True, "1 with remarks"),
        (answer(result("fail", "fan_speed.slow")), True, "with remarks"),  # a tier of the site's own
        (answer(result("unknown", "fan_count.few")), True, "with remarks"),  # not what it was drained for
        (answer(result("unknown", "heat.hot"), passed=["fan_count"]), False, "could not judge heat"),
        (answer(result("warn", "heat.hot"), passed=["fan_count"]), True, "proven"),
        (answer(passed=[], skipped=["heat"]), False, "could not judge heat"),
        (answer(node="g2"), False, "no verdict"),
        (answer(plan={"state": "default"}), False, "no verdict"),
        (answer(kind="drain"), False, "no verdict"),
        (answer(results=[{"check": "heat"}]), False, "no verdict"),
        (b"", False, "no verdict from g1: prolog failed (exit status 1)"),
        (b"Segmentation fault", False, "no verdict"),
        (b"[" * 5000, False, "no verdict"),
    ],
)
def test_table(output: bytes, clean: bool, says: str) -> None:
    proof = judge(Reply(1, output, "prolog failed"), PLAN, "g1", ["heat"])
    assert proof.clean is clean
    assert says in proof.why


@given(st.binary(max_size=100) | st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["kind", "node", "plan", "state", "passed", "skipped", "results", "findings"]), inner
    ),
).map(lambda one: json.dumps(one).encode()))  # fmt: skip
def test_no_other_answer_proves_anything(output: bytes) -> None:
    assert not judge(Reply(0, output, ""), PLAN, "g1", ["heat"]).clean
