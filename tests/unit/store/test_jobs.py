# ruff: noqa: E501 - one case a line reads as the table it is
"""Runs of a job are kept apart: requeues, recycled ids, clusters, and epilogs without a prolog."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from slurm_guard.store import Store, jobs, open_store
from slurm_guard.store.model import Allocation
from slurm_guard.store.record import parse
from slurm_guard.store.writer import ingest
from tests.unit.store.factory import finding, job, ms, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MINUTE = 60_000
DAY = 1440 * MINUTE


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def put(store: Store, *records: dict[str, Any]) -> None:
    ingest(store, [parse(json.dumps(record).encode()) for record in records])


def alloc(number: int, node: str, opened: int, closed: int | None = None, **more: Any) -> Allocation:
    defaults = {
        "restart": 0,
        "uid": 4100,
        "prolog_run": number,
        "epilog_run": None if closed is None else -number,
    }
    return Allocation(number, "aurora", node, 77, opened, closed=closed, **{**defaults, **more})


def orphan(number: int, node: str, at: int, **more: Any) -> Allocation:
    """What an epilog without a prolog's file leaves."""
    unsure = {"opened_sure": False, "restart_sure": False, "prolog_run": None, "epilog_run": -number}
    return alloc(number, node, at, at, **{"restart": 1, **unsure, **more})


#: name: (allocations, the groups expected, by their numbers)
GROUPS: dict[str, tuple[list[Allocation], list[set[int]]]] = {
    "two nodes of one run": ([alloc(1, "a", 0, 9), alloc(2, "b", 2, 9)], [{1, 2}]),
    "a requeue on another node": ([alloc(1, "a", 0, 9), alloc(2, "b", 50, 99, restart=1)], [{1}, {2}]),
    "a requeue on the same node": ([alloc(1, "a", 0, 9), alloc(2, "a", 50, restart=1)], [{1}, {2}]),
    "a requeue while an old node still ends": ([alloc(1, "a", 0, 9), alloc(2, "b", 0), alloc(3, "a", 5 * MINUTE, restart=1)], [{1, 2}, {3}]),
    "a recycled id": ([alloc(1, "a", 0, MINUTE), alloc(2, "b", 90 * DAY, 91 * DAY)], [{1}, {2}]),
    "a recycled id after a lost epilog": ([alloc(1, "a", 0), alloc(2, "b", 90 * DAY)], [{1}, {2}]),
    "a recycled id of another user": ([alloc(1, "a", 0), alloc(2, "b", MINUTE, uid=9)], [{1}, {2}]),
    "start times tell runs apart": ([alloc(1, "a", 0, start_time=5), alloc(2, "b", 9, start_time=9)], [{1}, {2}]),
    "start times hold a run together": ([alloc(1, "a", 0, 9, start_time=5), alloc(2, "b", 40 * MINUTE, start_time=5)], [{1, 2}]),
    "a step that starts a node late": ([alloc(1, "a", 0, 5 * DAY), alloc(2, "b", 4 * DAY, 5 * DAY)], [{1, 2}]),
    "refused on one node, at once": ([alloc(1, "a", 0, 200), alloc(2, "b", 90_000, 95_000)], [{1, 2}]),
    "an epilog without identity closes its prolog": ([alloc(1, "a", 0), orphan(2, "a", 9)], [{1}]),
    "it closes the latest run": ([alloc(1, "a", 0, 5), alloc(2, "a", 50, restart=1), orphan(3, "a", 99, restart=2)], [{1}, {2}]),
    "it does not close a later run": ([orphan(1, "a", 5), alloc(2, "a", 90 * DAY)], [{2}, {1}]),
    "it joins its run on another node": ([alloc(1, "a", 0, 60), orphan(2, "b", 61)], [{1, 2}]),
    "two of them are one run": ([orphan(1, "a", 60), orphan(2, "b", 61)], [{1, 2}]),
    "of another user": ([alloc(1, "a", 0), orphan(2, "a", 9, uid=8)], [{1}, {2}]),
}  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), GROUPS.values(), ids=GROUPS.keys())
@pytest.mark.parametrize("order", [1, -1])
def test_allocations_are_sorted_into_runs(
    given: list[Allocation], expected: list[set[int]], order: int
) -> None:
    import copy

    found = jobs.group(copy.deepcopy(given)[::order])
    groups = [{share.allocation.id for share in one.shares} for one in found]
    assert sorted(groups, key=min) == sorted(expected, key=min)


def test_clusters_are_never_mixed() -> None:
    one, other = alloc(1, "a", 0, 9), alloc(2, "b", 0, 9)
    other.cluster = "borealis"
    assert len(jobs.group([one, other])) == 2


def test_the_epilog_of_a_requeued_run_is_filed_under_that_run(store: Store) -> None:
    put(
        store,
        run("prolog", "gx1", 0, allocation=job(9001, "gx1", 0, restart=0)),
        run(
            "epilog",
            "gx1",
            20,
            finding("gpu_count.lost", device="gpu1"),
            allocation=job(9001, "gx1", 0, restart=0),
        ),
        run("prolog", "gx4", 24, allocation=job(9001, "gx4", 24, restart=1)),
        run("epilog", "gx4", 60, allocation=job(9001, "gx4", 24, restart=1, exit_code="0:0")),
    )
    first, second = jobs.job_runs(store, 9001)
    assert [(one.restart, [share.node for share in one.shares]) for one in (first, second)] == [
        (0, ["gx1"]),
        (1, ["gx4"]),
    ]
    assert first.shares[0].epilog is not None
    assert [one.fault for one in first.shares[0].epilog.findings] == ["gpu_count.lost"]
    assert (second.exit_code, second.closed) == ("0:0", ms(60) + 42)


def test_a_runs_own_hooks_and_what_lay_between_are_told_apart(store: Store) -> None:
    given = job(12, "gx1", 0)
    put(
        store,
        run("healthcheck", "gx1", -3),
        run("prolog", "gx1", 0, allocation=given),
        run("healthcheck", "gx1", 5),
        run("healthcheck", "gx1", 10, finding("ib_errors.symbol", "warn", "mlx5_0/1", tier="WARN")),
        run("epilog", "gx1", 12, allocation=given),
        run("healthcheck", "gx1", 15, finding("gpu_ecc", device="gpu0")),
        run("healthcheck", "gx1", 25, finding("gpu_ecc", device="gpu0")),
        run("healthcheck", "gx2", 6, finding("gpu_ecc", device="gpu0")),
    )
    ((share,),) = [one.shares for one in jobs.job_runs(store, 12)]
    assert share.between == {"pass": 1, "warn": 1}
    assert [one.started for one in share.events] == [ms(10)]
    assert [one.started for one in share.after] == [ms(15)]
    assert share.between_status == "warn"


def test_jobs_that_overlap_on_a_node_are_neighbours(store: Store) -> None:
    put(
        store,
        *(
            run(
                hook,
                "gx1",
                minutes,
                allocation=job(number, "gx1", opened, exit_code="0:0" if hook == "epilog" else None),
            )
            for number, opened, closed in ((1, 0, 9), (2, 5, 30), (3, 10, 60), (4, 31, 40), (5, 50, 70))
            for hook, minutes in (("prolog", opened), ("epilog", closed))
        ),
        run("prolog", "gx1", 25, allocation=job(6, "gx1", 25)),
        run("prolog", "gx2", 12, allocation=job(7, "gx2", 12)),
    )
    ((share,),) = [one.shares for one in jobs.job_runs(store, 3)]
    assert {one.job_id for one in share.neighbours} == {2, 4, 5, 6}
    assert [one.job_id for one in jobs.jobs_on(store, "gx1", ms(0), ms(8))] == [2, 1]


def test_a_job_of_another_cluster_is_asked_for_by_name(store: Store) -> None:
    put(
        store,
        run("prolog", "gx1", 0, allocation=job(5, "gx1", 0)),
        run("prolog", "bo1", 0, allocation=job(5, "bo1", 0), cluster="borealis"),
    )
    assert len(jobs.job_runs(store, 5)) == 2
    assert [one.cluster for one in jobs.job_runs(store, 5, "borealis")] == ["borealis"]
    assert jobs.job_runs(store, 6) == []


def test_a_job_that_a_reboot_ended_runs_beside_none_after_it(store: Store) -> None:
    """Its epilog never ran, so it has no end on record."""
    before = {"machine": {"boot_id": "earlier", "machine_id": "id-gx1", "serial": "SNgx1"}}
    lost, beside, own = job(70, "gx1", -600), job(71, "gx1", -300), job(77, "gx1", 0)
    put(
        store,
        run("prolog", "gx1", -600, allocation=lost, **before),
        run("prolog", "gx1", -300, allocation=beside),
        run("prolog", "gx1", 0, allocation=own),
        run("epilog", "gx1", 30, allocation=own),
    )
    (found,) = jobs.job_runs(store, 77)
    assert [one.job_id for one in found.shares[0].neighbours] == [71]


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        ([], (0, 60)),
        ([5], (5, 60)),
        ([50, 55], (0, 50)),
        ([5, 10, 40, 55], (10, 40)),
    ],
)
def test_the_longest_silence_of_a_share(
    store: Store, checks: list[float], expected: tuple[float, float]
) -> None:
    own = job(77, "gx1", 0)
    put(
        store,
        run("prolog", "gx1", 0, allocation=own),
        *(run("healthcheck", "gx1", minute) for minute in checks),
        run("epilog", "gx1", 60, allocation=own, elapsed_ms=0),
    )
    (found,) = jobs.job_runs(store, 77)
    silence = found.shares[0].silence
    assert silence == tuple(map(ms, expected))
