"""Incidents of small histories, each with the answer written by hand. Times are minutes."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import pytest

from slurm_guard import correlate
from slurm_guard.core.errors import NotFoundError
from slurm_guard.store import incidents, open_store, schema_incidents
from slurm_guard.store.record import parse
from slurm_guard.store.writer import ingest
from tests.unit.correlate.incidents_of import lines, new_store, of, picture, put
from tests.unit.store.factory import action, action_record, finding, ms, run

XID = finding("gpu_xid.79", device="gpu1", event=True, tier="DRAIN_REBOOT")
SCRATCH = finding("fs_mounts.hung", "timeout", device="/scratch", scope="shared", blame="storage")
RATE = finding("ib_link.down", device="mlx5_0/1", tier="DRAIN")


def check(node: str, minute: float, *seen: dict[str, Any], **more: Any) -> dict[str, Any]:
    return run("healthcheck", node, minute, *seen, **more)


def clean(node: str, *at: float, **more: Any) -> list[dict[str, Any]]:
    return [check(node, minute, **more) for minute in at]


def booted(node: str, boot: str, serial: str = "", machine_id: str = "") -> dict[str, Any]:
    return {"machine": {"boot_id": boot, "serial": serial, "machine_id": machine_id or f"id-{node}"}}


def held(node: str, minute: float, limit: str, outcome: str = "held") -> dict[str, Any]:
    more = {"limit": limit} if outcome == "held" else {}
    return action_record(
        node, minute, action("drain", minute, "ib_link.down", "mlx5_0/1", outcome, why="no room", **more)
    )


def unplanned(state: str) -> dict[str, Any]:
    return {"plan": {"hash": "", "state": state, "problem": f"the plan is {state}"}}


CASES: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "nothing wrong": (clean("n1", 0, 5, 10), []),
    "one fault that goes on": (
        [check("n1", 0, RATE), check("n1", 5, RATE), *clean("n1", 10, 15)],
        ["[n1 ib_link.down mlx] 0-5 open n1 mlx5_0/1"],
    ),
    "three clean runs prove a state gone": (
        [check("n1", 0, RATE), *clean("n1", 5, 10, 15, 20)],
        ["[n1 ib_link.down mlx] 0-0 resolved@15 n1 mlx5_0/1 (3 clean runs)"],
    ),
    "one sighting in between, and the count begins anew": (
        [check("n1", 0, RATE), *clean("n1", 5, 10), check("n1", 15, RATE), *clean("n1", 20, 25)],
        ["[n1 ib_link.down mlx] 0-15 open n1 mlx5_0/1"],
    ),
    "a check that could not judge proves nothing": (
        [check("n1", 0, RATE), *(check("n1", m, finding("ib_link", "unknown")) for m in (5, 10, 15, 20))],
        ["[n1 ib_link.down mlx] 0-0 open n1 mlx5_0/1"],
    ),
    "a check that was left out proves nothing": (
        [check("n1", 0, RATE), *clean("n1", 5, 10, 15, 20, passed=["gpu_ecc"], skipped=["ib_link"])],
        ["[n1 ib_link.down mlx] 0-0 open n1 mlx5_0/1"],
    ),
    "prologs prove something only five minutes apart": (
        [check("n1", 0, RATE), *(run("prolog", "n1", m) for m in (1, 2, 5, 6, 7, 10, 11))],
        ["[n1 ib_link.down mlx] 0-0 open n1 mlx5_0/1"],
    ),
    "and then they do": (
        [check("n1", 0, RATE), *(run("prolog", "n1", m) for m in (1, 5, 10, 15))],
        ["[n1 ib_link.down mlx] 0-0 resolved@15 n1 mlx5_0/1 (3 clean runs)"],
    ),
    "an event stays open without a boot": (
        [check("n1", 0, XID), *clean("n1", 5, 10, 15, 20, 25)],
        ["[n1 gpu_xid.79 gpu] 0-0 open n1 gpu1"],
    ),
    "a reboot and clean runs prove an event gone": (
        [check("n1", 0, XID), *clean("n1", 5, 10), *clean("n1", 15, 20, 25, **booted("n1", "boot-2"))],
        ["[n1 gpu_xid.79 gpu] 0-0 resolved@25 n1 gpu1 (3 clean runs after a reboot)"],
    ),
    "so do clean runs after somebody put the node back": (
        [
            check("n1", 0, XID),
            *clean("n1", 5, 10),
            action_record("n1", 12, action("resume", 12, "gpu_xid.79", "gpu1"), by="cli", user="lena"),
            *clean("n1", 15, 20, 25),
        ],
        ["[n1 gpu_xid.79 gpu] 0-0 resolved@25 n1 gpu1 (3 clean runs after the node was put back)"],
    ),
    "a burst of one Xid on several GPUs is one": (
        [
            check("n1", 0, *({**XID, "device": f"gpu{n}"} for n in (0, 1, 5))),
            check("n1", 5, {**XID, "device": "gpu7"}),
        ],
        ["[n1 gpu_xid.79 gpu] 0-5 open n1 gpu0,gpu1,gpu5,gpu7"],
    ),
    "two faults of a node are two": (
        [check("n1", 0, XID, RATE)],
        ["[n1 gpu_xid.79 gpu] 0-0 open n1 gpu1", "[n1 ib_link.down mlx] 0-0 open n1 mlx5_0/1"],
    ),
    "a relapse is a new one": (
        [check("n1", 0, RATE), *clean("n1", 5, 10, 15), check("n1", 20, RATE)],
        [
            "[n1 ib_link.down mlx] 0-0 resolved@15 n1 mlx5_0/1 (3 clean runs)",
            "[n1 ib_link.down mlx] 20-20 open n1 mlx5_0/1",
        ],
    ),
    "the same name on a new machine": (
        [check("n1", 0, XID, **booted("n1", "a", "SN1")), check("n1", 5, **booted("n1", "b", "SN2"))],
        ["[n1 gpu_xid.79 gpu] 0-0 resolved@5 n1 gpu1 (same name on a new machine)"],
    ),
    "a new machine with the old one's fault": (
        [check("n1", 0, RATE, **booted("n1", "a", "SN1")), check("n1", 5, RATE, **booted("n1", "b", "SN2"))],
        [
            "[n1 ib_link.down mlx] 0-0 resolved@5 n1 mlx5_0/1 (same name on a new machine)",
            "[n1 ib_link.down mlx] 5-5 open n1 mlx5_0/1",
        ],
    ),
    "a machine set up anew is no new machine": (
        [
            check("n1", 0, RATE, **booted("n1", "a", "SN1", "id-a")),
            check("n1", 5, **booted("n1", "b", "SN1", "id-b")),
        ],
        ["[n1 ib_link.down mlx] 0-0 open n1 mlx5_0/1"],
    ),
    "without serials the machine id tells": (
        [
            check("n1", 0, RATE, **booted("n1", "a", "", "id-a")),
            check("n1", 5, **booted("n1", "b", "", "id-b")),
        ],
        ["[n1 ib_link.down mlx] 0-0 resolved@5 n1 mlx5_0/1 (same name on a new machine)"],
    ),
    "two nodes with one fault are two": (
        [check("n1", 0, RATE), check("n2", 1, RATE)],
        [
            "[n1 ib_link.down mlx] 0-0 open n1 mlx5_0/1",
            "[n2 ib_link.down mlx] 1-1 open n2 mlx5_0/1",
        ],
    ),
    "three within minutes are one": (
        [check("n1", 0, RATE), check("n2", 9, RATE), check("n3", 18, RATE)],
        ["[many nodes ib_link.down] 0-18 open n1,n2,n3 mlx5_0/1"],
    ),
    "three within hours are three": (
        [check("n1", 0, RATE), check("n2", 30, RATE), check("n3", 60, RATE)],
        [
            "[n1 ib_link.down mlx] 0-0 open n1 mlx5_0/1",
            "[n2 ib_link.down mlx] 30-30 open n2 mlx5_0/1",
            "[n3 ib_link.down mlx] 60-60 open n3 mlx5_0/1",
        ],
    ),
    "three clusters have nothing to do with each other": (
        [check(f"n{number}", 0, RATE, cluster=f"cluster{number}") for number in (1, 2, 3)],
        [f"[{node} ib_link.down mlx] 0-0 open {node} mlx5_0/1" for node in ("n1", "n2", "n3")],
    ),
    "many are over when the last one is": (
        [
            *(check(node, 0, RATE) for node in ("n1", "n2", "n3")),
            *clean("n1", 5, 10, 15),
            *clean("n2", 5, 10, 15),
            check("n3", 5, RATE),
            *clean("n3", 10, 15, 20),
        ],
        ["[many nodes ib_link.down] 0-5 resolved@20 n1,n2,n3 mlx5_0/1 (3 clean runs)"],
    ),
    "a shared mount is one from the second node on": (
        [
            check("n1", 0, SCRATCH),
            check("n2", 12, {**SCRATCH, "fault": "fs_mounts.missing", "status": "fail"}),
        ],
        ["[fs_mounts /scratch] 0-12 open n1,n2 /scratch"],
    ),
    "two shared mounts are two": (
        [check("n1", 0, SCRATCH), check("n2", 0, {**SCRATCH, "device": "/home"})],
        ["[fs_mounts /home] 0-0 open n2 /home", "[fs_mounts /scratch] 0-0 open n1 /scratch"],
    ),
    "a shared mount that comes back on another node later is a new one": (
        [check("n1", 0, SCRATCH), *clean("n1", 5, 10, 15), check("n2", 30, SCRATCH)],
        [
            "[fs_mounts /scratch] 0-0 resolved@15 n1 /scratch (3 clean runs)",
            "[fs_mounts /scratch] 30-30 open n2 /scratch",
        ],
    ),
    "what is only noted, and what a job did, are none": (
        [check("n1", 0, {**RATE, "tier": "NOTE"}, {**XID, "tier": "JOB"}, finding("fs_space.low", "warn"))],
        [],
    ),
    "a site's own tier counts": (
        [check("n1", 0, RATE, decisions=[{"fault": "ib_link.down", "device": "mlx5_0/1", "tier": "NOTE"}])],
        [],
    ),
    "a stale plan is one incident of all nodes": (
        [
            check("n1", 0, **unplanned("stale")),
            check("n2", 2, **unplanned("stale")),
            *clean("n1", 5, 10, 15),
            *clean("n2", 7, 12, 17),
        ],
        ["[plan plan] 0-2 resolved@17 n1,n2 plan (3 clean runs)"],
    ),
    "a node that is on record without its cluster first, from before its plan": (
        [
            check("n1", 0, RATE, cluster="", **unplanned("default")),
            run("prolog", "n1", 2),
            check("n1", 5, RATE),
            check("n2", 3, cluster="", **unplanned("default")),
        ],
        [
            "[n1 ib_link.down mlx] 0-0 resolved@5 n1 mlx5_0/1 (on record as a node of cluster aurora since)",
            "[plan plan] 0-3 open n1,n2 plan",
            "[n1 ib_link.down mlx] 5-5 open n1 mlx5_0/1",
        ],
    ),
    "the budget is reached": (
        [check("n1", 0, RATE), held("n1", 0.1, "nodes"), check("n2", 3, RATE), held("n2", 3.1, "nodes")],
        [
            "[n1 ib_link.down mlx] 0-0 open n1 mlx5_0/1",
            "[budget nodes] 0.1-3.1 open n1,n2 nodes",
            "[n2 ib_link.down mlx] 3-3 open n2 mlx5_0/1",
        ],
    ),
    "each limit of the budget is one": (
        [held("n1", 0, "nodes"), held("n1", 1, "per_hour")],
        ["[budget nodes] 0-0 open n1 nodes", "[budget per_hour] 1-1 open n1 per_hour"],
    ),
    "held for another reason than the budget is none": (
        [action_record("n1", 0, action("drain", 0, "ib_link.down", "", "held", why="it is an admin's"))],
        [],
    ),
    "the budget goes on while nodes ask again": (
        [one for m in (0, 5, 10, 15, 20) for one in (check("n1", m), held("n1", m + 0.1, "shared"))],
        ["[budget shared] 0.1-20.1 open n1 shared"],
    ),
    "it is over when nobody asks any more": (
        [check("n1", 0), held("n1", 0.1, "job"), *clean("n1", 5, 10, 15)],
        ["[budget job] 0.1-0.1 resolved@15 n1 job (3 clean runs)"],
    ),
    "or when there is room": (
        [held("n1", 0, "nodes"), held("n1", 6, "", "done")],
        ["[budget nodes] 0-0 resolved@6 n1 nodes (there was room: the node was taken out of service)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_incidents(name: str) -> None:
    records, expected = CASES[name]
    assert of(records) == expected


def test_two_nodes_of_a_fault_become_one_incident_with_the_third_one_and_say_so() -> None:
    with new_store() as store:
        first = put(store, check("n1", 0, RATE)).opened
        second = put(store, check("n2", 4, RATE)).opened
        (one,), (other,) = first, second
        incidents.acknowledge(store, one, "lena", "mine", 0)
        changes = put(store, check("n3", 8, RATE))
        assert (changes.grown, changes.merged, changes.opened) == ({one}, {other}, set())
        assert lines(store) == ["[many nodes ib_link.down] 0-8 open n1,n2,n3 mlx5_0/1"]
        assert incidents.load(store, other).part_of == one
        with pytest.raises(ValueError, match=f"part of incident {one}"):
            incidents.close(store, other, "lena", "", 0)


def test_changes_tell_what_became_of_which() -> None:
    with new_store() as store:
        (number,) = put(store, check("n1", 0, RATE)).opened
        assert not put(store, check("n1", 5, RATE)).any
        assert not put(store, *clean("n1", 10, 15)).any
        assert put(store, *clean("n1", 20)).resolved == {number}
        late = put(store, check("n1", 12, RATE))
        assert (late.reopened, late.opened) == ({number}, set())
        assert lines(store) == ["[n1 ib_link.down mlx] 0-12 open n1 mlx5_0/1"]


def test_a_late_clean_run_may_make_two_of_one() -> None:
    with new_store() as store:
        put(store, check("n1", 0, RATE), *clean("n1", 5, 10), check("n1", 20, RATE))
        assert lines(store) == ["[n1 ib_link.down mlx] 0-20 open n1 mlx5_0/1"]
        put(store, *clean("n1", 15))
        assert lines(store) == [
            "[n1 ib_link.down mlx] 0-0 resolved@15 n1 mlx5_0/1 (3 clean runs)",
            "[n1 ib_link.down mlx] 20-20 open n1 mlx5_0/1",
        ]


def test_a_late_sighting_may_make_one_of_two() -> None:
    with new_store() as store:
        put(store, check("n1", 0, RATE), *clean("n1", 5, 10, 15), check("n1", 20, RATE))
        last = max(one.id for one in incidents.listed(store))
        put(store, check("n1", 7, RATE))
        assert lines(store) == ["[n1 ib_link.down mlx] 0-20 open n1 mlx5_0/1"]
        (one,) = incidents.listed(store)
        assert incidents.load(store, last).part_of == one.id


def test_what_was_killed_on_the_way_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with new_store() as store:
        put(store, check("n1", 0, RATE))
        before = picture(store)

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("slurm_guard.correlate.follow.regroup", killed)
            with pytest.raises(KeyboardInterrupt):
                put(store, check("n2", 5, RATE), *clean("n1", 5, 10, 15))
        assert picture(store) == before
        correlate.run(store, 0)
        assert lines(store) == [
            "[n1 ib_link.down mlx] 0-0 resolved@15 n1 mlx5_0/1 (3 clean runs)",
            "[n2 ib_link.down mlx] 5-5 open n2 mlx5_0/1",
        ]


def test_what_a_person_closed_stays_closed_when_late_records_come() -> None:
    with new_store() as store:
        (number,) = put(store, check("n1", 5, XID), check("n1", 10)).opened
        incidents.close(store, number, "lena", "swapped", ms(12))
        put(store, check("n1", 0, XID), *clean("n1", 20, 25))
        assert lines(store) == ["[n1 gpu_xid.79 gpu] 0-5 resolved@12 n1 gpu1 (closed by lena: swapped)"]
        put(store, check("n1", 30, XID))
        assert lines(store)[1:] == ["[n1 gpu_xid.79 gpu] 30-30 open n1 gpu1"]
        (last,) = (one for one in incidents.listed(store) if one.state == "open")
        assert incidents.earlier(store, last) == number


def test_an_acknowledgement_lasts_until_the_incident_is_over() -> None:
    with new_store() as store:
        (number,) = put(store, check("n1", 0, RATE)).opened
        incidents.acknowledge(store, number, "lena", "", ms(1))
        put(store, check("n1", 5, {**RATE, "device": "mlx5_1/1"}))
        assert incidents.load(store, number).state == "acknowledged"
        put(store, *clean("n1", 10, 15, 20))
        assert incidents.load(store, number).state == "resolved"
        assert [word["what"] for word in incidents.words(store, number)] == ["ack"]


def test_a_store_from_before_incidents_can_be_read_and_is_looked_through_once_it_may_be_written() -> None:
    with new_store() as store:
        ingest(store, [parse(json.dumps(check("n1", 0, RATE)).encode())])
        path = store.path
        store.close()
        with sqlite3.connect(path) as plain:
            for table in schema_incidents.TABLES:
                plain.execute(f"DROP TABLE {table.name}")
            plain.execute("UPDATE meta SET value='1.0'")
        plain.close()
        with open_store(path, readonly=True) as old:
            assert incidents.listed(old) == []
            assert incidents.of_nodes(old, ["n1"], None, 0, ms(9)) == []
            assert incidents.spoken(old) == []
            with pytest.raises(NotFoundError, match="incident 1 is not on record"):
                incidents.load(old, 1)
        with open_store(path) as now:
            correlate.run(now, 0)
            assert lines(now) == ["[n1 ib_link.down mlx] 0-0 open n1 mlx5_0/1"]


def test_nothing_new_is_no_transaction() -> None:
    with new_store() as store:
        put(store, check("n1", 0, RATE))
        with store.write():  # nobody else can write now
            assert not correlate.run(store, 0).any
