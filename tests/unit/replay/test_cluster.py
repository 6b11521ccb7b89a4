"""The budget of the replay: kept answers are those that the budget itself would give."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_guard.core.outcome import FAIL, Finding
from slurm_guard.core.policy import Decision
from slurm_guard.replay.cluster import Cluster
from slurm_guard.slurm import budget

NAMES = [f"k{number}" for number in range(12)]
PARTITIONS = {"all": NAMES, "few": NAMES[:5]}
LIMITS = {
    "nodes": 5,
    "percent": 50.0,
    "per_hour": 3,
    "shared_nodes": 1,
    "nodes_per_job": 2,
    "nodes_per_user": 3,
}
CAUSES = [
    ("gpu_count", "lost", "gpu1", "device"),
    ("gpu_count", "lost", "gpu2", "device"),
    ("fs_mounts", "stale", "/data", "shared"),
    ("fs_mounts", "stale", "/home", "shared"),
]
MOVES = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "ask", "resume", "person"]),
        st.sampled_from(NAMES),
        st.sampled_from(range(len(CAUSES))),
        st.sampled_from([1, 30, 900, 3600, 30_000]),
        st.sampled_from([(), (7,), (8, 9)]),
    ),
    max_size=40,
)


def wanted(number: int) -> Decision:
    check, code, device, scope = CAUSES[number]
    finding = Finding(FAIL, code=code, device=device, scope=scope)
    finding.check = check
    return Decision("drain", finding, "DRAIN", "enforce", "")


@settings(max_examples=150, deadline=None)
@given(MOVES)
def test_an_answer_that_is_kept_is_still_true(
    moves: list[tuple[str, str, int, int, tuple[int, ...]]],
) -> None:
    cluster, now = Cluster(NAMES, PARTITIONS, LIMITS), 1_806_000_000.0
    for what, name, number, pause, jobs in moves:
        now += pause
        one = wanted(number)
        if what == "resume" and cluster.reason(name):
            cluster.resume(name)
        if what == "person" and not cluster.reason(name):
            cluster.drain(name, "broken fan", now)
        if what != "ask" or cluster.reason(name):
            continue
        users = [job + 1000 for job in jobs]
        given_ = cluster.room(name, one, now, jobs, users)
        asked = budget.room(
            cluster._all, name, LIMITS, one.fault, one.scope, one.device, now, jobs=jobs, users=users
        )
        assert (given_.ok, given_.limit) == (asked.ok, asked.limit)
        if given_.ok:
            cluster.drain(name, f"SG:{one.fault} {one.device}", now, jobs, users)


def test_a_full_hour_has_room_again_when_it_is_over() -> None:
    cluster, now = Cluster(NAMES, {}, LIMITS), 1_806_000_000.0
    for name in NAMES[:3]:
        cluster.drain(name, "SG:gpu_count.lost gpu1", now)
    for name in NAMES[:3]:
        cluster.resume(name)
    assert cluster.room("k7", wanted(0), now + 3599, (), ()).limit == "per_hour"
    assert cluster.room("k7", wanted(0), now + 3600, (), ()).ok
    assert cluster.reason("k1") == ""
