"""Incidents are the same in whatever order records come, in whatever portions, and however often."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_guard import correlate
from slurm_guard.correlate import late
from tests.unit.correlate.incidents_of import NOW, lines, new_store, picture, put
from tests.unit.store.factory import action, action_record, finding, run

NODES = ("n1", "n2", "n3", "n4")
FINDINGS = (
    finding("gpu_ecc.dbe", device="gpu1"),
    finding("gpu_ecc.dbe", device="gpu2"),
    finding("gpu_xid.79", device="gpu1", event=True, tier="DRAIN_REBOOT"),
    finding("fs_mounts.hung", "timeout", device="/scratch", scope="shared", blame="storage"),
    finding("fs_mounts.missing", device="/scratch", scope="shared", blame="storage"),
    finding("memory_size.low", "unknown"),
)


@st.composite
def one_record(draw: st.DrawFn, number: int) -> dict[str, Any]:
    node = draw(st.sampled_from(NODES))
    minute = draw(st.integers(0, 24)) * 2.5
    run_id = f"{number:032x}"
    boot = f"boot-{minute // draw(st.sampled_from((20, 40, 100)))}"
    serial = f"SN{node}-{draw(st.sampled_from((0, 0, 0, 0, 1)))}"
    kind = draw(st.sampled_from(("run", "run", "run", "run", "held", "resume", "drain")))
    if kind == "held":
        held = action("drain", minute, "gpu_ecc.dbe", "gpu1", "held", limit="nodes", why="full")
        return action_record(node, minute + 0.1, held, run_id=run_id)
    if kind != "run":
        return action_record(node, minute + 0.1, action(kind, minute, "gpu_xid.79", "gpu1"), run_id=run_id)
    plan = {"hash": "9" * 32, "state": draw(st.sampled_from(("ok", "ok", "ok", "stale"))), "problem": "old"}
    seen = draw(st.lists(st.sampled_from(FINDINGS), unique_by=id, max_size=3)) if draw(st.booleans()) else []
    tier = draw(st.sampled_from(("DRAIN", "DRAIN", "DRAIN_RMA")))
    seen = [{**one, "message": f"seen by {number}", "tier": tier} for one in seen]
    hook = draw(st.sampled_from(("healthcheck", "healthcheck", "prolog")))
    machine = {"boot_id": boot, "machine_id": f"id-{node}", "serial": serial}
    cluster = draw(st.sampled_from(("aurora", "aurora", "aurora", "")))
    return run(hook, node, minute, *seen, run_id=run_id, machine=machine, plan=plan, cluster=cluster)


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    return [draw(one_record(number)) for number in range(1, draw(st.integers(2, 30)))]


@given(history=histories(), data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_order_and_portions_change_nothing(history: list[dict[str, Any]], data: st.DataObject) -> None:
    with new_store() as store:
        put(store, *sorted(history, key=lambda one: (one["started"], one["run_id"])))
        expected = picture(store)
    shuffled = data.draw(st.permutations(history))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(history)), max_size=6)))
    look_back = data.draw(st.sampled_from((late.LOOK_BACK_MS, (360_000, 1_020_000))))
    with new_store() as store, patch.object(late, "LOOK_BACK_MS", look_back):
        for start, end in zip([0, *cuts], [*cuts, len(history)], strict=True):
            put(store, *shuffled[start:end])
        assert picture(store) == expected
        put(store, *shuffled)
        correlate.run(store, NOW)
        assert picture(store) == expected, lines(store)
