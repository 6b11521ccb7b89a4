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
