"""What runs know of each other: this boot's state, open allocations, requests, turns."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core.context import Context
from slurm_guard.core.paths import Places
from slurm_guard.engine import allocations, child, files, node_state, requests, turn
from slurm_guard.engine.reading import Hang


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(str(tmp_path))


def test_state_is_of_this_boot_alone(places: Places) -> None:
    state = node_state.load(places, "boot-a")
    assert (state.known, state.kmsg_last) == (False, None)
    state.kmsg_last, state.counters = 41, {"ib_symbol_errors mlx5_0/1": [3, 100.0]}
    assert node_state.save(places, state, [])
    assert node_state.load(places, "boot-a").counters == {"ib_symbol_errors mlx5_0/1": [3, 100.0]}
    other = node_state.load(places, "boot-b")
    assert (other.known, other.kmsg_last, other.counters) == (False, None, {})


def test_two_runs_at_once_lose_nothing_of_each_other(places: Places) -> None:
    one, two = node_state.load(places, "b"), node_state.load(places, "b")
    one.kmsg_last, one.counters = 90, {"x": [1, 1.0]}
    two.kmsg_last, two.counters = 70, {"y": [2, 2.0]}
    node_state.save(places, one, [])
    node_state.save(places, two, [])
    merged = node_state.load(places, "b")
    assert merged.kmsg_last == 90
    assert set(merged.counters) == {"x", "y"}


@pytest.mark.parametrize("torn", [b"{", b"null", b'{"version":1,"boot_id":"b","counters":7}', b""])
def test_a_torn_state_starts_anew(places: Places, torn: bytes) -> None:
    files.make_folder(places.run)
    Path(places.state).write_bytes(torn)
    assert not node_state.load(places, "b").known


def test_a_child_left_behind_is_known_while_it_lives(places: Places) -> None:
    pid, pipe = child.spawn(lambda end: time.sleep(60))
    hang = Hang("mounts", "/scratch", pid, confirmed=True)
    node_state.save(places, node_state.load(places, "b"), [hang])
    still = node_state.load(places, "b").still_hanging()
    assert [(one.key, one.pid, one.still) for one in still] == [("/scratch", pid, True)]
    assert node_state.load(places, "b").hung_before == ["/scratch"]
    child.kill_and_leave(pid, 5.0)
    os.close(pipe)
    assert node_state.load(places, "b").still_hanging() == []


def test_a_zombie_hangs_no_more(places: Places) -> None:
    """Its parent is gone, and a container's first process may not reap what it is given."""
    pid, pipe = child.spawn(lambda end: time.sleep(60))
    node_state.save(places, node_state.load(places, "b"), [Hang("mounts", "/scratch", pid, confirmed=True)])
    os.kill(pid, child.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert child.describe(pid)[0] == "Z"
    assert node_state.load(places, "b").still_hanging() == []
    os.waitpid(pid, 0)
    os.close(pipe)


def test_history_keeps_the_last_runs_of_what_was_judged() -> None:
    state = node_state.NodeState("b")
    state.note_seen({"ib_link.down mlx5_0/1"}, {"ib_link"}, 3)
    state.note_seen(set(), {"gpu_count"}, 3)  # ib_link was not judged: no run for it
    assert state.runs_seen() == {("ib_link.down", "mlx5_0/1"): [1]}
    for _ in range(3):
        state.note_seen(set(), {"ib_link"}, 3)
    assert state.seen == {}


def prolog(job_id: int, **env: str) -> Context:
    return Context("prolog", {"SLURM_JOB_ID": str(job_id), "SLURM_JOB_GPUS": "0", **env})


def test_the_epilog_finds_what_its_prolog_wrote(places: Places) -> None:
    opened = allocations.opening(prolog(5, SLURM_JOB_RESTART_COUNT="0"), "b", "2026-01-02T03:04:05.000Z")
    allocations.open_file(places, {**opened, "kmsg_last": 12, "counters": {}})
    found = allocations.find(places, 5, "b")
    assert found is not None
    assert (found.restart, found.kmsg_last, found.opened_at) == (0, 12, "2026-01-02T03:04:05.000Z")
    assert allocations.find(places, 5, "after-a-reboot") is None
    allocations.close_file(places, 5)
    allocations.close_file(places, 5)
    assert allocations.find(places, 5, "b") is None


def test_other_allocations_are_listed_and_foreign_files_are_not(places: Places) -> None:
    for number in (9, 7):
        allocations.open_file(places, allocations.opening(prolog(number), "b", ""))
    Path(places.allocations, "notes.txt").write_text("x")
    Path(places.allocations, "8.json").write_text("{torn")
    assert [one.job_id for one in allocations.all_open(places, "b")] == [7, 9]


def drain(**fields: object) -> dict[str, object]:
    wanted = {"boot_id": "b", "run_id": "r", "fault": "gpu_xid.79", "device": "gpu3", "scope": "device"}
    wanted.update({"reason": "SG:gpu_xid.79 gpu3", **fields})
    return requests.make("drain", **wanted)  # type: ignore[arg-type]


def test_a_request_waits_once_and_is_dropped(places: Places) -> None:
    requests.put(places, drain())
    requests.put(places, drain())
    assert [one.fault for one in requests.waiting(places, "b")] == ["gpu_xid.79"]
    requests.drop(places, drain())
    assert requests.waiting(places, "b") == []


def test_a_request_of_another_boot_or_too_old_is_never_carried_out(places: Places) -> None:
    requests.put(places, drain())
    assert requests.waiting(places, "other") == []
    requests.put(places, drain())
    assert requests.waiting(places, "b", now=time.time() + requests.OLDEST_S + 1) == []
    assert os.listdir(places.requests) == []


@pytest.mark.parametrize("change", [{"kind": "reboot"}, {"reason": None}, {"scope": None}, {"kind": ""}])
def test_a_request_of_a_version_to_come_is_not_taken_for_a_drain(
    places: Places, change: dict[str, object]
) -> None:
    requests.put(places, {**drain(), **change})
    assert requests.waiting(places, "b") == []
    assert os.listdir(places.requests) == []


def test_what_cannot_be_removed_is_no_request_and_keeps_no_run_from_the_others(places: Places) -> None:
    requests.put(places, drain())
    Path(places.requests, "a-folder.json").mkdir()
    assert [one.fault for one in requests.waiting(places, "b")] == ["gpu_xid.79"]


@given(
    st.dictionaries(
        st.sampled_from(["kind", "created", "boot_id", "x"]),
        st.one_of(st.none(), st.text(max_size=5), st.floats(), st.booleans()),
    )
)
def test_any_object_in_the_requests_is_carried_out_or_removed(
    tmp_path: Path, content: dict[str, object]
) -> None:
    places = Places(str(tmp_path))
    files.make_folder(places.requests)
    files.write_json(os.path.join(places.requests, "x.json"), content)
    for one in requests.waiting(places, "b"):
        assert one.boot_id == "b"
    for name in os.listdir(places.requests):
        os.unlink(os.path.join(places.requests, name))


@given(st.integers(1, 40), st.floats(0, 1e6))
def test_no_two_of_sixteen_nodes_have_a_turn_at_once(count: int, now: float) -> None:
    nodes = [f"n{number:02d}" for number in range(min(count, turn.MOST_SLOTS))]
    in_turn = [node for node in nodes if turn.remains(*turn.slot_of(node, nodes), now)]
    assert len(in_turn) <= 1


@given(st.integers(2, 3000), st.floats(0, 1e6))
def test_a_node_that_waits_arrives_in_its_turn(count: int, now: float) -> None:
    slot, slots = rank = turn.slot_of("n5", [f"n{number}" for number in range(count)])
    pause = turn.wait_s(*rank, now)
    assert 0 <= pause <= slots * turn.SLOT_S
    assert turn.remains(slot, slots, now + pause + 0.001)


@pytest.mark.parametrize(
    "left",
    [7, {}, {"probe": "nvml", "key": "", "pid": 1}, {"probe": 5, "key": "", "pid": 1, "start_time": 1}],
)
def test_a_child_that_nobody_can_name_costs_no_run(places: Places, left: Any) -> None:
    content = {"version": 1, "boot_id": "b", "counters": {}, "seen": {"a.b c": 5, "d.e f": [1]}}
    files.make_folder(places.run)
    files.write_json(places.state, {**content, "hung_before": [], "left_behind": [left]})
    found = node_state.load(places, "b")
    assert found.still_hanging() == []
    assert found.runs_seen() == {("d.e", "f"): [1]}


@pytest.mark.parametrize("name", ["dropped", "kmsg_last"])
def test_a_number_that_is_none_starts_the_state_anew(places: Places, name: str) -> None:
    content = {"version": 1, "boot_id": "b", "counters": {}, "seen": {}, "hung_before": [], "left_behind": []}
    files.make_folder(places.run)
    files.write_json(places.state, {**content, name: "5"})
    assert not node_state.load(places, "b").known
    node_state.note_dropped(places, "b", 2)
    assert node_state.load(places, "b").dropped == 2
