"""The ledger of many drains says what the budget says of one, one after the other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_guard.collector import judge
from slurm_guard.collector.ledger import Ledger
from slurm_guard.core import tag
from slurm_guard.slurm import budget
from slurm_guard.slurm.gateway import NodeState
from slurm_guard.store.order_history import Loss
from slurm_guard.store.orders import Order
from tests.unit.slurm.nodes import node

NOW = 1_850_000_000
LIMITS = {
    "nodes": 3,
    "percent": 50,
    "per_hour": 4,
    "shared_nodes": 1,
    "nodes_per_job": 2,
    "nodes_per_user": 2,
}
FAULTS = ["gpu_xid.79", "gpu_count.lost", "fs_mounts.hung"]


def order(name: str, fault: str = FAULTS[0], device: str = "gpu1", **more: Any) -> Order:
    given: dict[str, Any] = {
        "cluster": "lab",
        "node": name,
        "kind": "drain",
        "fault": fault,
        "device": device,
        "reason": f"SG:{fault} {device}",
        "run": "0" * 32,
        "made_at": 1000,
        "scope": "device",
    }
    return Order(**{**given, **more})


def drained(known: NodeState, one: Order) -> NodeState:
    """The node as it is after its drain."""
    comment = tag.added(known.comment, tag.Entry(NOW, one.job_ids, map(int, one.users)), NOW - 86400)
    return node(
        known.name,
        "IDLE+DRAIN",
        one.reason,
        reason_time=NOW,
        partitions=known.partitions,
        comment=known.comment if comment is None else comment,
    )


@st.composite
def clusters(draw: st.DrawFn) -> list[NodeState]:
    found = []
    for number in range(draw(st.integers(1, 9))):
        reason = draw(
            st.sampled_from(["", "", "", "DIMM", "Prolog error", *(f"SG:{f} gpu1" for f in FAULTS)])
        )
        entry = tag.Entry(NOW - draw(st.sampled_from([60, 7000, 90_000])), [draw(st.integers(1, 3))], [7])
        found.append(
            node(
                f"c{number}",
                "IDLE+DRAIN" if reason else draw(st.sampled_from(["IDLE", "MIXED", "FUTURE"])),
                reason,
                reason_time=NOW - draw(st.sampled_from([60, 7000])),
                partitions=draw(st.lists(st.sampled_from(["a", "b"]), unique=True)),
                comment=draw(st.sampled_from(["", "", "a rack", tag.MARK + str(entry)])),
            )
        )
    return found


asks = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.sampled_from(FAULTS),
        st.sampled_from(["gpu1", "gpu2"]),
        st.booleans(),
        st.lists(st.integers(1, 3), max_size=2, unique=True),
        st.lists(st.sampled_from(["7", "8"]), max_size=2, unique=True),
    ),
    max_size=12,
)


@settings(max_examples=300)
@given(clusters(), asks, st.integers(0, 6), st.integers(0, 4), st.integers(0, 2), st.integers(0, 3))
def test_one_by_one_it_agrees_with_the_budget(
    known: list[NodeState], wanted: list[Any], nodes: int, hour: int, shared: int, each: int
) -> None:
    limits = {**LIMITS, "nodes": nodes, "per_hour": hour, "shared_nodes": shared, "nodes_per_job": each}
    ledger = Ledger(known, limits, [], NOW)
    now = {one.name: one for one in known}
    for number, fault, device, is_shared, jobs, users in wanted:
        name = f"c{number}"
        if name not in now or now[name].base == "future":
            continue
        one = order(name, fault, device, scope="shared" if is_shared else "device", job_ids=jobs, users=users)
        ours = ledger.room(one)
        theirs = budget.room(
            now.values(), name, limits, fault, one.scope, device, NOW, jobs=jobs, users=map(int, users)
        )
        assert (ours.ok, ours.limit) == (theirs.ok, theirs.limit), (ours.why, theirs.why)
        if ours.ok and not now[name].drained:
            ledger.take(one)
            now[name] = drained(now[name], one)
            if tag.parse(now[name].comment) is None:  # only the ledger remembers these
                return


def cluster(size: int) -> list[NodeState]:
    return [node(f"c{number}", "IDLE") for number in range(size)]


def some(count: int, fault: str = FAULTS[0], start: int = 0, **more: Any) -> list[Order]:
    return [order(f"c{number}", fault, id=number + 1, **more) for number in range(start, start + count)]


CASES: list[tuple[str, dict[str, float], list[Order], int, set[str]]] = [
    ("two at once within the budget", {}, some(2), 2, set()),
    ("two at once, one place", {"nodes": 1}, some(2), 1, {"nodes"}),
    ("many that all fit", {}, some(3), 3, set()),
    ("many that do not all fit: none", {}, some(4), 0, {"incident"}),
    ("on whichever device", {}, [*some(2), *some(2, start=2, device="gpu6")], 0, {"incident"}),
    ("two causes, each for itself", {}, [*some(2), *some(1, FAULTS[1], 5)], 3, set()),
    ("a shared cause on one node", {}, some(1, FAULTS[2], scope="shared"), 1, set()),
    ("a shared cause on two nodes: none", {}, some(2, FAULTS[2], scope="shared"), 0, {"shared"}),
    ("the site lets two go", {"shared_nodes": 2}, some(2, FAULTS[2], scope="shared"), 2, set()),
    ("one job's many nodes", {"nodes": 9}, some(4, job_ids=[5]), 0, {"incident"}),
    ("one job's third node", {}, [*some(2, job_ids=[5]), *some(1, FAULTS[1], 4, job_ids=[5])], 2, {"job"}),
    ("most of an hour's", {"nodes": 9, "per_hour": 2}, some(3), 0, {"incident"}),
]  # fmt: skip


@pytest.mark.parametrize(("case", "limits", "wanted", "count", "limit"), CASES, ids=[one[0] for one in CASES])
def test_what_comes_together_is_judged_together(
    case: str, limits: dict[str, float], wanted: list[Order], count: int, limit: set[str]
) -> None:
    go, held = judge.judge(wanted, Ledger(cluster(40), {**LIMITS, **limits}, [], NOW))
    assert len(go) == count
    assert {one.limit for one in held} == limit
    assert len(go) + len(held) == len(wanted)
    assert all(one.why for one in held)


def test_what_was_lost_in_a_day_counts_though_no_note_of_it_is_left() -> None:
    losses = [
        Loss("c1", (NOW - 7200) * 1000, (5,), ()),
        Loss("c2", (NOW - 7200) * 1000, (5,), (7,)),
        Loss("c3", (NOW - 90_000) * 1000, (6,), ()),
        Loss("c4", (NOW - 90_000) * 1000, (6,), ()),
        Loss("elsewhere", NOW * 1000, (6,), ()),
    ]
    ledger = Ledger(cluster(40), LIMITS, losses, NOW)
    assert ledger.room(order("c9", job_ids=[5])).limit == "job"
    assert ledger.room(order("c9", job_ids=[6])).ok
    assert ledger.room(order("c9", users=["7"])).ok
    assert ledger.room(order("c2", job_ids=[5])).ok


@pytest.mark.parametrize(
    ("scope", "ages", "count"),
    [
        ("device", [0], 0),
        ("device", [2_900], 0),
        ("device", [3_000, 0], 2),
        ("shared", [3_000], 0),
        ("shared", [15_000, 100], 2),
        ("device", [-10], 1),
    ],
)
def test_orders_wait_a_moment_for_each_other(scope: str, ages: list[int], count: int) -> None:
    now = 1_000_000
    wanted = [order(f"c{number}", scope=scope, made_at=now - age) for number, age in enumerate(ages)]
    assert len(judge.ripe(wanted, now)) == count


def test_causes_do_not_wait_for_each_other() -> None:
    wanted = [order("c1", made_at=0), order("c2", FAULTS[1], made_at=9_000)]
    assert [one.node for one in judge.ripe(wanted, 9_500)] == ["c1"]
