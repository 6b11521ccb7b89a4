"""The replay against a table written by hand, over a stored week of 64 nodes (week.py tells its stories)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from slurm_guard.replay import Question, replay
from slurm_guard.store import Store, open_store
from slurm_guard.store.record import parse
from slurm_guard.store.writer import ingest
from tests.unit.replay import week

HALF_A_MINUTE = 30_000


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Quiet hours are by the clock of the host."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(tmp_path_factory.mktemp("week") / "store.sqlite") as opened:
        ingest(opened, [parse(json.dumps(one).encode()) for one in week.records()])
        yield opened


def ask(store: Store, plan: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    given = {"since": week.ms(0), "until": week.ms(week.WEEK_H), "cluster": "aurora", **more}
    return replay(store, Question(plan or week.bundle(), **given))


def hour(text: str | None) -> str:
    """`2027-03-08T06:00:03.000Z` as `Mon 06:00`; whole minutes, rounded down."""
    if text is None:
        return ""
    day = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"][int(text[8:10]) - 8]
    return f"{day} {text[11:16]}"


def drains(found: list[dict[str, Any]]) -> list[tuple[str, str, str, str, str]]:
    return [
        (one["node"], hour(one["at"]), one["action"], f"{one['fault']} {one['device']}", hour(one["until"]))
        for one in found
    ]


#: What the plan would have done and was not done: node, when, how, for what, until when
WOULD = [
    ("w11", "Tue 02:00", "drain", "gpu_count.lost gpu3", "Tue 09:00"),
    ("w36", "Wed 06:00", "drain", "ib_errors.symbol mlx5_1/1", "Wed 11:00"),
    ("w38", "Thu 14:00", "drain", "gpu_count.lost gpu0", "Thu 18:00"),
    ("w38", "Thu 20:00", "drain", "gpu_count.lost gpu0", ""),
    ("w42", "Fri 12:00", "drain", "gpu_count.lost gpu0", "Fri 23:00"),
    ("w43", "Fri 12:00", "drain", "gpu_count.lost gpu0", "Fri 23:00"),
    ("w44", "Fri 13:00", "drain", "gpu_count.lost gpu0", "Fri 23:00"),
    ("w51", "Sat 03:00", "drain", "fs_mounts.stale /scratch", "Sat 08:00"),
    ("w27", "Sat 09:20", "refuse", "gpu_count.lost gpu1", "Sat 15:00"),
    ("w28", "Sat 09:30", "drain", "gpu_count.lost gpu5", "Sat 15:00"),
    ("w31", "Sun 03:15", "drain", "gpu_count.lost gpu4", "Sun 06:00"),
    ("w32", "Sun 04:15", "drain", "gpu_count.lost gpu4", "Sun 07:00"),
]
#: What was held: node, from when, how often, by what
HELD = [
    *[(f"w{number}", "Fri 12:00", 1, "per_hour") for number in range(44, 49)],
    *[(f"w{number}", "Fri 13:00", 8, "nodes") for number in range(45, 49)],
    *[(f"w{number}", "Sat 03:00", 3, "shared") for number in range(52, 57)],
    ("w33", "Sun 05:15", 1, "job"),
]


#: Where no GPU of w27 is missed, its second job starts, and has this
LATER = ("w27", "Sat 10:45", "drain", "gpu_xid.79 gpu7", "")


def test_what_would_have_been_drained_and_was_not(store: Store) -> None:
    assert drains(ask(store)["only_would"]) == WOULD


def test_what_was_drained_and_would_not_have_been(store: Store) -> None:
    found = ask(store)["only_did"]
    assert [(one["node"], hour(one["at"]), one["now"]) for one in found] == [
        ("w23", "Thu 03:00", "tier WARN: never a drain")
    ]


def test_what_was_held(store: Store) -> None:
    found = [one for one in ask(store)["held"] if one["limit"] != "stays"]
    assert [(one["node"], hour(one["at"]), one["times"], one["limit"]) for one in found] == HELD


def test_the_totals(store: Store) -> None:
    found = ask(store)
    # Those of the table, and w03, w15, w19 and w41, which were drained in fact too.
    assert found["would"] == {
        "drains": len(WOULD) + 4,
        "refusals": 1,
        "returns": 15,  # all but w38's second and w19, which a person put back; and w02, out since Sunday
        "most_out": 5,
        "most_out_at": "2027-03-12T13:00:44.000Z",
    }
    assert found["did"]["drains"] == 5
    assert found["did"]["returns"] == 5
    assert (found["did"]["most_out"], hour(found["did"]["most_out_at"])) == (2, "Mon 06:00")
    assert found["same"] == 4
    assert found["held_by"] == {"job": 1, "nodes": 4, "per_hour": 5, "shared": 5, "stays": 1}
    assert found["jobs_not_started"] == 1
    assert (found["nodes"], found["nodes_on_record"]) == (64, 63)


def test_in_mode_observe_nothing_is_drained_and_enforcing_shows_what_would_be(store: Store) -> None:
    observed = ask(store, week.bundle(modes=[]))
    assert observed["only_would"] == []
    assert observed["would"]["drains"] == 0
    assert set(observed["held_by"]) == {"observe"}
    # w02 is still out at the start, and this plan does not enforce its return.
    assert observed["would"]["returns"] == 0
    enforced = ask(store, week.bundle(modes=[["gpu_*", "drain", "observe"]]), enforce=True)
    assert drains(enforced["only_would"]) == WOULD
    assert any("taken as enforced" in one for one in enforced["not_replayed"])


def test_what_is_off_stays_off_when_all_is_enforced(store: Store) -> None:
    found = ask(store, week.bundle(modes=[["gpu_count", "*", "off"]]), enforce=True)
    of_others = [one for one in WOULD if "gpu_count" not in one[3]]
    assert drains(found["only_would"]) == [*of_others, LATER]
    assert [(one["node"], one["now"]) for one in found["only_did"] if one["node"] == "w41"] == [
        ("w41", "tier DRAIN_REBOOT; the mode of drain is off")
    ]


def test_a_check_that_the_plan_no_longer_runs_is_no_reason(store: Store) -> None:
    enabled: dict[str, dict[str, Any]] = {"gpu_xid": {}, "fs_space": {}, "gpu_ecc": {}}
    found = ask(store, week.bundle(checks=enabled))
    assert drains(found["only_would"]) == [LATER]
    assert [(one["node"], one["now"]) for one in found["only_did"]] == [
        ("w03", "the plan does not run ib_link"),
        ("w23", "tier WARN: never a drain"),
        ("w41", "the plan does not run gpu_count"),
    ]


#: With a confirmation of one run, a night that is no longer quiet, fs_space as a drain and a larger budget
BOLD = [
    ("w07", "Mon 08:00", "drain", "ib_link.down mlx5_0/1", "Mon 11:00"),
    ("w11", "Tue 02:00", "drain", "gpu_count.lost gpu3", "Tue 09:00"),
    ("w36", "Tue 23:00", "drain", "ib_errors.symbol mlx5_1/1", "Wed 11:00"),
    ("w38", "Thu 14:00", "drain", "gpu_count.lost gpu0", "Thu 18:00"),
    ("w38", "Thu 20:00", "drain", "gpu_count.lost gpu0", ""),
    *[(f"w{n}", "Fri 12:00", "drain", "gpu_count.lost gpu0", "Fri 23:00") for n in range(42, 49)],
    ("w51", "Sat 02:00", "drain", "fs_mounts.stale /scratch", "Sat 08:00"),
    ("w27", "Sat 09:20", "refuse", "gpu_count.lost gpu1", "Sat 15:00"),
    ("w28", "Sat 09:30", "drain", "gpu_count.lost gpu5", "Sat 15:00"),
    ("w31", "Sun 03:15", "drain", "gpu_count.lost gpu4", "Sun 06:00"),
    ("w32", "Sun 04:15", "drain", "gpu_count.lost gpu4", "Sun 07:00"),
    ("w33", "Sun 05:15", "drain", "gpu_count.lost gpu4", "Sun 08:00"),
]


def test_another_policy(store: Store) -> None:
    budget = {
        "nodes": 20,
        "percent": 50.0,
        "per_hour": 20,
        "shared_nodes": 1,
        "nodes_per_job": 0,
        "nodes_per_user": 0,
    }
    plan = week.bundle(rules=[], confirm={"runs": 1, "of": 1}, tiers={"fs_space": "DRAIN"}, budget=budget)
    found = ask(store, plan)
    assert drains(found["only_would"]) == BOLD
    assert found["only_did"] == []
    # fs_space leaves no trace once it is clean here (it is skipped), so that w23 is not proven good again.
    assert (found["would"]["drains"], found["would"]["most_out"]) == (len(BOLD) + 5, 10)


def test_a_rule_that_asks_for_a_time_without_a_break(store: Store) -> None:
    rule = {"fault": "gpu_count", "runs": 1, "of": 1, "minimum_s": 3 * 3600, "source": "rule patience"}
    found = ask(store, week.bundle(rules=[week.QUIET, rule]))
    of_gpus = [one for one in drains(found["only_would"]) if "gpu_count" in one[3]]
    assert of_gpus == [
        ("w11", "Tue 05:00", "drain", "gpu_count.lost gpu3", "Tue 09:00"),
        ("w42", "Fri 15:00", "drain", "gpu_count.lost gpu0", "Fri 23:00"),
        ("w43", "Fri 15:00", "drain", "gpu_count.lost gpu0", "Fri 23:00"),
        ("w44", "Fri 16:00", "drain", "gpu_count.lost gpu0", "Fri 23:00"),
        ("w45", "Fri 16:00", "drain", "gpu_count.lost gpu0", "Fri 23:00"),
    ]
    late = [(one["node"], hour(one["would"]["at"]), hour(one["did"]["at"])) for one in found["otherwise"]]
    assert late == [("w41", "Fri 15:00", "Fri 12:01")]


def test_a_partition_has_a_budget_of_its_own(store: Store) -> None:
    small = {"small": [f"w{number}" for number in range(41, 51)]}
    found = ask(store, partitions=small)
    assert {one["node"] for one in found["only_would"]} & set(small["small"]) == set()
    held = [(one["node"], one["limit"]) for one in found["held"] if one["node"] in small["small"]]
    assert held == [(f"w{number}", "partition") for number in range(42, 49)]
    assert not any("partitions" in one for one in found["not_replayed"])


def test_the_budget_is_held_over_all_nodes_whoever_is_shown(store: Store) -> None:
    found = ask(store, shown=frozenset({"w45", "w43"}))
    assert drains(found["only_would"]) == [one for one in WOULD if one[0] == "w43"]
    assert [(one["node"], one["limit"]) for one in found["held"]] == [("w45", "per_hour"), ("w45", "nodes")]
    assert found["would"]["drains"] == 1
    assert found["would"]["most_out"] == 5


def test_it_starts_with_what_was_the_case(store: Store) -> None:
    """On Friday w38 is in service, as in fact, so that five of the eight find room; and nothing is out."""
    found = ask(store, since=week.ms(96), until=week.ms(120))
    assert [one[:2] for one in drains(found["only_would"])] == [
        ("w42", "Fri 12:00"),
        ("w43", "Fri 12:00"),
        ("w44", "Fri 13:00"),
        ("w45", "Fri 13:00"),
    ]
    assert found["would"]["most_out"] == 5


def test_a_drain_from_before_is_taken_over_with_its_open_fault(store: Store) -> None:
    """w15's Xid of Wednesday is proven gone by Thursday's boot, and not before."""
    found = ask(store, since=week.ms(60), until=week.ms(90), shown=frozenset({"w15"}))
    assert (found["would"]["drains"], found["would"]["returns"]) == (0, 1)
    assert found["would"]["most_out_at"] == "2027-03-10T12:00:00.000Z"
    before_the_boot = ask(store, since=week.ms(60), until=week.ms(82), shown=frozenset({"w15"}))
    assert before_the_boot["would"]["returns"] == 0


def test_what_cannot_be_replayed_is_said(store: Store) -> None:
    said = " ".join(ask(store)["not_replayed"])
    assert "no records of w64 in this time" in said
    assert (
        "events before the records begin (62 nodes (w[01,03-63])" not in said
    )  # w02's begin too late as well
    assert "events before the records begin (63 nodes (w[01-63]), the first at 2027-03-07T12:00:02" in said
    assert "left nothing on record: gpu_pcie" in said
    assert "no slurm.conf was read" in said
    assert "modes of then" in said


def test_a_node_that_nobody_knows_is_told(store: Store) -> None:
    found = ask(store, shown=frozenset({"w64", "v01"}))
    assert found["not_replayed"][0] == "v01: neither on record, nor in the plan or slurm.conf"
    assert found["not_replayed"][1].startswith("no records of w64")


def test_a_time_without_records_is_no_trouble(store: Store) -> None:
    found = ask(store, since=week.ms(300), until=week.ms(400))
    assert (found["nodes_on_record"], found["would"]["drains"], found["only_did"]) == (0, 0, [])
