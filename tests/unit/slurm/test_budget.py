"""How many nodes may be out of service because of the guard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.slurm import budget
from tests.unit.slurm.nodes import OURS, node

if TYPE_CHECKING:
    from slurm_guard.slurm.gateway import NodeState

PLAN = {"nodes": 3, "percent": 10.0, "per_hour": 4, "shared_nodes": 1}


def cluster(size: int, out: dict[int, str] | None = None, **fields: Any) -> list[NodeState]:
    taken = out or {}
    return [
        node(f"c{i}", "IDLE+DRAIN" if i in taken else "IDLE", taken.get(i, ""), **fields) for i in range(size)
    ]


@pytest.mark.parametrize(
    ("nodes", "percent", "size", "most"),
    [
        (3, 10, 4, 1),
        (3, 10, 10, 1),
        (3, 10, 19, 1),
        (3, 10, 20, 2),
        (3, 10, 5000, 3),
        (0, 10, 100, 0),
        (5, 0, 100, 0),
        (50, 100, 8, 8),
        (5, 0.5, 8, 1),
    ],
)
def test_the_limit(nodes: int, percent: float, size: int, most: int) -> None:
    assert budget.limit({"nodes": nodes, "percent": percent}, size) == most


@pytest.mark.parametrize(
    ("size", "out", "fits"),
    [
        (4, {}, True),
        (4, {1: OURS}, False),
        (4, {1: "DIMM swap"}, True),
        (4, {1: "Not responding"}, True),
        (4, {1: "Prolog error"}, False),
        (4, {1: "Epilog error"}, False),
        (4, {1: f"{OURS} CASE-5"}, False),
        (100, {1: OURS, 2: "Prolog error"}, True),
        (100, {1: OURS, 2: "Prolog error", 3: "SGJ:gpu_processes.left gpu0"}, False),
        (4, {0: OURS}, True),
        (4, {0: OURS, 1: OURS, 2: OURS}, True),
    ],
)
def test_room_for_one_more(size: int, out: dict[int, str], fits: bool) -> None:
    answer = budget.room(cluster(size, out), "c0", PLAN, "gpu_remap.failure", "device", "gpu5")
    assert answer.ok is fits
    assert answer.why


def test_a_refusal_names_the_nodes_that_are_out() -> None:
    answer = budget.room(cluster(6, {4: OURS}), "c0", PLAN, "gpu_xid.94", "device")
    assert "c4" in answer.why
    assert "1 of at most 1" in answer.why


def test_each_partition_has_its_own_budget() -> None:
    """Two of 40 nodes are free to go, but the node's small partition has lost its share."""
    small = [
        node("s0", partitions=["all", "small"]),
        node("s1", "IDLE+DRAIN", OURS, partitions=["all", "small"]),
    ]
    large = [node(f"c{i}", partitions=["all"]) for i in range(38)]
    answer = budget.room(small + large, "s0", PLAN, "gpu_xid.94", "device")
    assert not answer
    assert "partition small" in answer.why
    assert budget.room(small + large, "c0", PLAN, "gpu_xid.94", "device")


def test_a_fault_with_a_shared_cause_is_one_incident() -> None:
    hung = "SG:fs_mounts.hung /data"
    nodes = cluster(2000, {7: hung})
    assert not budget.room(nodes, "c0", PLAN, "fs_mounts.hung", "shared", "/data")
    assert budget.room(nodes, "c0", PLAN, "fs_mounts.hung", "shared", "/home")
    assert budget.room(nodes, "c0", PLAN, "fs_mounts.hung", "device", "/data")
    assert not budget.room(cluster(9), "c0", {**PLAN, "shared_nodes": 0}, "fs_mounts.hung", "shared", "/data")


def test_a_shared_outage_drains_at_most_the_budget_however_many_nodes_ask() -> None:
    nodes = cluster(16)
    hung = "SG:fs_mounts.hung /data"
    for number in range(16):
        if budget.room(nodes, f"c{number}", PLAN, "fs_mounts.hung", "shared", "/data"):
            nodes[number] = node(f"c{number}", "IDLE+DRAIN", hung)
    assert len(budget.drained(nodes)) == 1


def test_nodes_that_do_not_exist_yet_are_not_counted() -> None:
    future = [node(f"f{i}", "FUTURE") for i in range(1000)]
    assert not budget.room([*cluster(4, {1: OURS}), *future], "c0", PLAN, "gpu_xid.94", "device")


def test_a_node_that_slurm_did_not_tell_of_still_meets_the_clusters_budget() -> None:
    assert not budget.room(cluster(4, {1: OURS}), "elsewhere", PLAN, "gpu_xid.94", "device")


@given(
    size=st.integers(1, 60),
    nodes=st.integers(0, 8),
    percent=st.floats(0, 100),
    order=st.randoms(use_true_random=False),
)
def test_asking_one_by_one_never_passes_the_limit(size: int, nodes: int, percent: float, order: Any) -> None:
    plan = {"nodes": nodes, "percent": percent, "per_hour": 10_000, "shared_nodes": 1}
    known = cluster(size)
    numbers = list(range(size))
    order.shuffle(numbers)
    for number in numbers:
        fault = f"gpu_xid.{number}"
        if budget.room(known, f"c{number}", plan, fault, "device", "gpu5"):
            known[number] = node(f"c{number}", "IDLE+DRAIN", f"SG:{fault} gpu5")
    assert len(budget.drained(known)) == budget.limit(plan, size)


@pytest.mark.parametrize(
    ("minutes_ago", "fits"), [([1, 30], True), ([1, 30, 59], False), ([1, 30, 61], True)]
)
def test_so_many_in_an_hour(minutes_ago: list[int], fits: bool) -> None:
    now = 1_700_000_000.0
    nodes = cluster(100)
    for index, minutes in enumerate(minutes_ago):
        nodes[index] = node(f"c{index}", "IDLE+DRAIN", OURS, reason_time=int(now - 60 * minutes))
    plan = {**PLAN, "nodes": 50, "percent": 100, "per_hour": 3}
    answer = budget.room(nodes, "c99", plan, "gpu_xid.79", "device", "gpu1", now=now)
    assert bool(answer) == fits
    assert fits or "of an hour" in answer.why


SHARES = {
    "nodes": 50,
    "percent": 100.0,
    "per_hour": 50,
    "shared_nodes": 1,
    "nodes_per_job": 2,
    "nodes_per_user": 3,
}
NOW = 1_800_000_000.0


def noted(notes: dict[int, str], out: dict[int, str] | None = None) -> list[NodeState]:
    """A cluster of twenty nodes whose comments are given by number."""
    nodes = cluster(20, out)
    for number, text in notes.items():
        nodes[number].comment = text
    return nodes


def note(hours: float, jobs: str = "-", uids: str = "-") -> str:
    return f"slurm_guard drained {int(NOW - 3600 * hours)} jobs {jobs} uids {uids}"


OLDER = f"{note(1, '8')} / {note(3, '7').partition('drained ')[2]}"

#: comments by node, jobs and users of the node that is asked about, the limit that holds it
SHARED: list[tuple[str, dict[int, str], list[int], list[int], str]] = [
    ("nothing yet", {}, [7], [1001], ""),
    ("one other node", {1: note(1, "7", "1001")}, [7], [1001], ""),
    ("two other nodes, both back in service", {1: note(1, "7"), 2: note(23, "7")}, [7], [1001], "job"),
    ("the second a day ago", {1: note(1, "7"), 2: note(24.1, "7")}, [7], [1001], ""),
    ("another job", {1: note(1, "7"), 2: note(2, "7")}, [8], [1001], ""),
    ("one of several jobs", {1: note(1, "6,7"), 2: note(2, "7,9")}, [5, 7], [], "job"),
    ("its own earlier drain does not count", {0: note(1, "7"), 2: note(2, "7")}, [7], [], ""),
    ("three nodes of one user", {i: note(i, str(i), "1001") for i in (1, 2, 3)}, [9], [1001], "user"),
    ("two of them", {i: note(i, str(i), "1001") for i in (1, 2)}, [9], [1001], ""),
    ("an older entry behind a newer", {1: OLDER, 2: note(2, "7")}, [7], [], "job"),
    ("a person's comment says nothing", {1: "drained 17 jobs 7 uids 1001", 2: note(2, "7")}, [7], [], ""),
    ("an idle node is nobody's", {1: note(1, "7"), 2: note(2, "7")}, [], [], ""),
]  # fmt: skip


@pytest.mark.parametrize(("case", "notes", "jobs", "users", "limit"), SHARED, ids=[one[0] for one in SHARED])
def test_one_job_or_user_costs_so_many_nodes_a_day(
    case: str, notes: dict[int, str], jobs: list[int], users: list[int], limit: str
) -> None:
    answer = budget.room(
        noted(notes), "c0", SHARES, "gpu_xid.79", "device", "gpu3", NOW, jobs=jobs, users=users
    )
    assert (answer.ok, answer.limit) == (not limit, limit)
    assert not limit or "24 h (c1, c2" in answer.why


def test_zero_is_no_limit_and_an_old_plan_has_none() -> None:
    nodes = noted({i: note(1, "7", "1001") for i in range(1, 9)})
    for plan in ({**SHARES, "nodes_per_job": 0, "nodes_per_user": 0}, {**PLAN, "nodes": 50, "per_hour": 50}):
        assert budget.room(nodes, "c0", plan, "gpu_xid.79", "device", "", NOW, jobs=[7], users=[1001])


def test_a_node_that_came_back_still_counts_for_its_hour() -> None:
    plan = {**SHARES, "per_hour": 3}
    nodes = noted({1: note(0.5), 2: note(0.9), 3: note(1.1)}, {4: OURS})
    nodes[4].reason_time = int(NOW) - 60
    answer = budget.room(nodes, "c0", plan, "gpu_xid.79", "device", "", NOW)
    assert (answer.ok, answer.limit) == (False, "per_hour")
    nodes[2].comment = ""
    assert budget.room(nodes, "c0", plan, "gpu_xid.79", "device", "", NOW)


@pytest.mark.parametrize(
    ("out", "scope", "plan", "limit"),
    [
        ({1: "SG:fs_mounts.hung /scratch"}, "shared", SHARES, "shared"),
        (dict.fromkeys(range(1, 11), "SG:gpu_xid.79 gpu3"), "device", SHARES, "incident"),
        ({1: OURS, 2: OURS}, "device", {**SHARES, "nodes": 2}, "nodes"),
    ],
)
def test_every_answer_names_the_limit_that_was_reached(
    out: dict[int, str], scope: str, plan: dict[str, float], limit: str
) -> None:
    fault, device = ("fs_mounts.hung", "/scratch") if scope == "shared" else ("gpu_xid.79", "gpu1")
    assert budget.room(cluster(20, out), "c0", plan, fault, scope, device, NOW).limit == limit
