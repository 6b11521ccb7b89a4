"""What the store knows of nodes: state, open faults, drains, silences, peers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from slurm_guard.store import Store, fleet, open_store, queries
from slurm_guard.store.record import parse
from slurm_guard.store.writer import ingest
from tests.unit.store.factory import action, action_record, finding, job, ms, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

XID79 = finding("gpu_xid.79", device="gpu3", event=True, tier="DRAIN_REBOOT")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def put(store: Store, *records: dict[str, Any]) -> None:
    ingest(store, [parse(json.dumps(record).encode()) for record in records])


def open_on(store: Store, node: str) -> list[str]:
    (state,) = fleet.node_states(store, [node])
    return [one.fault for one in state.open_faults]


def test_the_last_run_of_each_node_is_its_state(store: Store) -> None:
    put(
        store,
        run("healthcheck", "gx1", 0, finding("ib_link.down", device="mlx5_1/1")),
        run("healthcheck", "gx1", 5),
        run("healthcheck", "gx2", 5),
        run("healthcheck", "gx2", 9, finding("fs_mounts.hung", "timeout", "/scratch")),
    )
    states = {one.node: (one.status, [f.fault for f in one.open_faults]) for one in fleet.node_states(store)}
    assert states == {"gx1": ("pass", []), "gx2": ("timeout", ["fs_mounts.hung"])}


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ([], ["gpu_xid.79"]),
        ([run("healthcheck", "gx1", 10)], ["gpu_xid.79"]),
        ([run("healthcheck", "gx1", 10, uptime_s=60.0)], []),
        ([action_record("gx1", 8, action("resume", 8, "gpu_xid.79")), run("healthcheck", "gx1", 10)], []),
        (
            [
                action_record("gx1", 8, action("resume", 8, "gpu_xid.79", outcome="failed")),
                run("healthcheck", "gx1", 10),
            ],
            ["gpu_xid.79"],
        ),
    ],
    ids=["seen last", "not seen again", "after a reboot", "after a resume", "after a failed resume"],
)
def test_an_event_stays_open_until_a_reboot_or_a_resume(
    store: Store, later: list[Any], expected: list[str]
) -> None:
    put(store, run("healthcheck", "gx1", 5, XID79), *later)
    assert open_on(store, "gx1") == expected


def test_a_drain_stands_until_it_is_resumed(store: Store) -> None:
    put(store, run("epilog", "gx1", 5, XID79, actions=[action("drain", 5, "gpu_xid.79", "gpu3")]))
    put(
        store,
        run(
            "epilog", "gx2", 4, XID79, actions=[action("drain", 4, "gpu_xid.79", "gpu3", outcome="observed")]
        ),
    )
    drained = {one.node: one.drained_by is not None for one in fleet.node_states(store)}
    assert drained == {"gx1": True, "gx2": False}
    put(store, action_record("gx1", 30, action("resume", 30, "gpu_xid.79", "gpu3")))
    change = fleet.last_change(store, "gx1")
    assert change is not None
    assert (change.action, fleet.last_change(store, "gx2")) == ("resume", None)
    assert [(one.node, one.action) for one in fleet.drains(store)] == [
        ("gx1", "resume"),
        ("gx1", "drain"),
        ("gx2", "drain"),
    ]
    assert [one.action for one in fleet.drains(store, since=ms(6), nodes=["gx1"])] == ["resume"]


def test_nodes_of_one_name_in_two_clusters_are_two_nodes(store: Store) -> None:
    put(
        store,
        run("epilog", "gx1", 5, XID79, actions=[action("drain", 5, "gpu_xid.79", "gpu3")]),
        run("healthcheck", "gx1", 6, cluster="borealis"),
    )
    states = {one.cluster: (len(one.open_faults), one.drained_by is None) for one in fleet.node_states(store)}
    assert states == {"aurora": (1, False), "borealis": (0, True)}


def test_silence_and_partial_sight_are_gaps(store: Store) -> None:
    put(
        store,
        *(run("healthcheck", "gx1", minute) for minute in (0, 5, 10, 55, 60)),
        run("healthcheck", "gx1", 65, coverage={"nvml": "hung"}),
    )
    gaps = [(one.start, one.end, one.why) for one in fleet.silences(store, "gx1", ms(0), ms(70))]
    assert gaps == [(ms(10), ms(55), "no run on record"), (ms(65), ms(65) + 42, "nvml: hung")]


def test_peers_are_asked_how_the_same_check_went_there(store: Store) -> None:
    hung = finding("fs_mounts.hung", "timeout", "/scratch")
    put(
        store,
        run("prolog", "gx1", 5, hung),
        run("healthcheck", "gx2", 3),
        run("healthcheck", "gx3", 4, hung),
        run("healthcheck", "gx3", 6),
        run("healthcheck", "gx4", 4, finding("fs_mounts.hung", "timeout", "/archive")),
        run("healthcheck", "gx5", 40),
        run("healthcheck", "bo1", 4, cluster="borealis"),
    )
    found = fleet.peers(store, "aurora", "fs_mounts", "/scratch", ms(0), ms(10), "gx1")
    assert (found.passed, found.failed) == (["gx2"], ["gx3"])


def test_near_nodes_are_asked_first(store: Store) -> None:
    put(store, *(run("healthcheck", f"gx{number}", 5) for number in range(1, 9)))
    asked = (store, "aurora", "fs_mounts", "/scratch", ms(0), ms(10), "gx1")
    assert fleet.peers(*asked, near=["gx1", "gx7", "gx8"], most=2).passed == ["gx7", "gx8"]
    assert fleet.peers(*asked, most=2).passed == ["gx2", "gx3"]


def test_the_same_fault_in_other_jobs(store: Store) -> None:
    fault = finding("gpu_xid.31", device="gpu2", tier="JOB", blame="job")
    for number, (user, one) in enumerate(
        (("mira", fault), ("noor", fault), ("ola", fault), ("ola", finding("gpu_xid.31", device="gpu5")))
    ):
        put(
            store,
            run("epilog", "gx1", number * 10, one, allocation=job(number, "gx1", number * 10 - 5, user=user)),
        )
    found = fleet.same_fault_in_other_jobs(store, "aurora", "gx1", "gpu_xid.31", "gpu2", 0, ms(-99), ms(99))
    assert (found.jobs, found.users) == ({1, 2}, {"noor", "ola"})


def test_findings_by_fault_node_and_window(store: Store) -> None:
    put(
        store,
        *(
            run("healthcheck", f"gx{n}", n * 10, finding("ib_link.down", device=f"mlx5_{n}/1"))
            for n in range(5)
        ),
    )
    with store.read() as connection:
        numbers = queries.node_numbers(connection, ["gx2", "gx3", "nope"])
        assert set(numbers) == {("aurora", "gx2"), ("aurora", "gx3")}
        by_time = queries.findings(connection, fault="ib_link.down", since=ms(10), until=ms(30))
        by_node = queries.findings(connection, nodes=numbers.values())
        by_device = queries.findings(connection, device="mlx5_4/1")
    assert [one.node for one in by_time] == ["gx3", "gx2", "gx1"]
    assert {one.node for one in by_node} == {"gx2", "gx3"}
    assert [one.node for one in by_device] == ["gx4"]
