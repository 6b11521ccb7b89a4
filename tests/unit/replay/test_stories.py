"""Short stories of one or two nodes: what a node remembers, and whose hand was at work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slurm_guard.replay import Question, replay
from slurm_guard.store import open_store
from slurm_guard.store.record import parse
from slurm_guard.store.writer import ingest
from tests.unit.store.factory import action, action_record, at, finding, ms, run, uuid
from tests.unit.store.factory import job as allocation

Records = list[dict[str, Any]]
ENFORCE = [["*", "*", "enforce"]]
LOST = finding("gpu_count.lost", device="gpu1", tier="DRAIN_REBOOT")
HUNG = finding("fs_mounts.hung", "timeout", device="/data", scope="node")
LINK = finding("ib_link.down", device="mlx5_0/1")
ADA = {"by": "cli", "user": "ada"}


@pytest.fixture
def tell(tmp_path: Path) -> Any:
    """A function that replays some records, from minute 0 to 600 of the factory's day."""

    def told(records: Records, rules: Records | None = None, **more: Any) -> dict[str, Any]:
        profile = {"modes": ENFORCE, "rules": rules or []}
        with open_store(tmp_path / "store.sqlite") as store:
            ingest(store, [parse(json.dumps(one).encode()) for one in records])
            bundle = {"cluster": "aurora", "default_profile": profile, **more}
            return replay(store, Question(bundle, ms(0), ms(600), "aurora"))

    return told


def checks(first: int, last: int, *seen: dict[str, Any], step: int = 10, **more: Any) -> Records:
    """Healthchecks of n1 between two minutes."""
    return [run("healthcheck", "n1", minute, *seen, **more) for minute in range(first, last + 1, step)]


def hook(kind: str, minute: float, job_id: int, *seen: dict[str, Any], **more: Any) -> dict[str, Any]:
    return run(kind, "n1", minute, *seen, allocation=allocation(job_id, "n1", minute, **more))


def did(minute: float, kind: str, fault: str = "gpu_count.lost", **more: Any) -> dict[str, Any]:
    return action_record("n1", minute, action(kind, minute, fault, "gpu1", written=True), **more)


def xid(code: int, since: str) -> dict[str, Any]:
    return finding(f"gpu_xid.{code}", device="gpu1", tier="DRAIN_REBOOT", event=True, since=since)


def spells(found: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    return [(one["action"], one["at"], one["until"]) for one in found["only_would"]]


def test_a_second_hang_refuses_and_a_first_does_not(tell: Any) -> None:
    hung = run("healthcheck", "n1", 10, HUNG, coverage={"/data": "hung"})
    first = hook("prolog", 30, 5, HUNG, gpus="1")
    assert tell([hung, *checks(20, 20), first])["would"]["refusals"] == 0
    again = run("healthcheck", "n1", 100, HUNG, coverage={"/data": "hung"})
    found = tell(
        [*checks(90, 90), again, hook("prolog", 105, 6, HUNG, gpus="1")], confirm={"runs": 2, "of": 2}
    )
    assert spells(found) == [("refuse", at(105), None)]


@pytest.mark.parametrize(("others", "drains"), [([], 0), ([{"job_id": 4, "uid": 900}], 1)])
def test_a_node_is_idle_if_no_other_job_was_there(tell: Any, others: Records, drains: int) -> None:
    rule = {"fault": "gpu_count", "node": "idle", "action": "tell"}
    assert tell(checks(10, 30, LOST, others=others), [rule])["would"]["drains"] == drains


@pytest.mark.parametrize(
    ("gpus", "does"),
    [([uuid(1)], "refuse"), ([f"MIG-{uuid(1)}/2/0"], "refuse"), ([uuid(2)], "drain"), ([], "drain")],
)
def test_the_job_s_gpus_are_known_by_uuid(tell: Any, gpus: list[str], does: str) -> None:
    given = {**allocation(5, "n1", 10), "gpus": gpus}
    found = tell([run("prolog", "n1", 10, LOST, allocation=given)])
    assert spells(found) == [(does, at(10), None)]


def test_a_fault_that_is_back_makes_the_node_stay_unless_the_machine_is_another(tell: Any) -> None:
    first = [*checks(0, 10, LOST), *checks(20, 80)]
    back = [*checks(90, 90, LOST), *checks(100, 200)]
    same = tell([*first, *back])
    assert (same["would"]["returns"], same["held_by"]) == (1, {"stays": 1})


def test_another_machine_knows_nothing_of_the_return(tell: Any) -> None:
    other: dict[str, Any] = {"machine": {"boot_id": "new", "machine_id": "new", "serial": "new"}}
    records = [
        *checks(0, 10, LOST),
        *checks(20, 80),
        *checks(90, 90, LOST, **other),
        *checks(100, 200, **other),
    ]
    found = tell(records)
    assert (found["would"]["returns"], found["held_by"]) == (2, {})


@pytest.mark.parametrize(("swapped", "drains"), [(False, 1), (True, 0)])
def test_a_swapped_gpu_begins_anew(tell: Any, swapped: bool, drains: int) -> None:
    rule = {"fault": "gpu_xid.31", "escalate": {"after": 2, "within_s": 86400, "tier": "DRAIN_RESET"}}
    once, twice = ({**xid(31, since), "tier": "JOB"} for since in ("a", "b"))
    swap = [finding("inventory.gpu", "warn", device="gpu1", tier="NOTE")] if swapped else []
    records = [*checks(0, 0, once), *checks(60, 60, *swap), *checks(120, 120, twice)]
    assert tell(records, [rule])["would"]["drains"] == drains


def test_a_fresh_boot_s_runs_are_no_proof(tell: Any) -> None:
    records = [*checks(0, 0, LOST), *checks(10, 60, uptime_s=100.0), *checks(70, 200)]
    assert spells(tell(records)) == [("drain", at(0), at(90))]


def test_an_event_on_a_node_that_is_out_drains_it_no_second_time(tell: Any) -> None:
    records = [*checks(0, 0, LOST), *checks(10, 10, LOST, xid(79, "a")), *checks(20, 20, LOST)]
    records += [did(25, "resume", **ADA), *checks(30, 200)]
    assert spells(tell(records)) == [("drain", at(0), at(25))]


def test_a_job_that_comes_again_is_another_run(tell: Any) -> None:
    absent = [hook("prolog", 5, 7), hook("epilog", 8, 7, xid(79, "a"))]
    later = [hook("prolog", 100, 7), hook("epilog", 110, 7, xid(79, "b"))]
    found = tell([*checks(0, 0, LOST), *absent, *checks(10, 90), *later])
    assert spells(found) == [("drain", at(0), at(30)), ("drain", at(110), None)]
    assert found["jobs_not_started"] == 1


def test_a_person_s_word_ends_that_the_node_stays(tell: Any) -> None:
    records = [*checks(0, 10, LOST), *checks(20, 80), *checks(90, 90, LOST), *checks(100, 150)]
    records += [
        did(155, "resume", **ADA),
        *checks(160, 300),
        *checks(310, 310, LINK),
        *checks(320, 320, LINK),
    ]
    found = tell([*records, *checks(330, 400)])
    assert spells(found)[1:] == [("drain", at(90), at(155)), ("drain", at(320), at(350))]


def test_a_person_s_drain_is_not_touched(tell: Any) -> None:
    by_hand = action_record("n1", 5, {**action("drain", 5, "", written=True), "reason": "loose fan"}, **ADA)
    found = tell([by_hand, *checks(10, 30, LOST), did(40, "resume", **ADA), *checks(50, 50, LOST)])
    assert spells(found) == [("drain", at(50), None)]
    assert found["did"]["drains"] == 0


def test_a_drain_that_wrote_something_says_that_the_node_was_back(tell: Any) -> None:
    found = tell([*checks(0, 0), did(10, "drain"), did(300, "drain")])
    assert found["did"]["drains"] == 2


def test_records_without_a_cluster_belong_to_it_and_those_of_another_do_not(tell: Any) -> None:
    early = checks(10, 10, LOST, cluster="")
    foreign = [run("healthcheck", "z9", 10, LOST, cluster="borealis")]
    found = tell([*early, *foreign])
    assert [one["node"] for one in found["only_would"]] == ["n1"]
    assert found["nodes"] == 1


def test_a_drain_of_last_week_still_stands(tell: Any) -> None:
    days = -5 * 1440
    found = tell([*checks(days, days, LOST), did(days + 1, "drain"), *checks(0, 100)])
    assert (found["would"]["most_out"], found["did"]["most_out"]) == (1, 1)
    assert (found["would"]["drains"], found["would"]["returns"]) == (0, 1)


def test_a_drain_of_last_week_after_which_jobs_ran_does_not(tell: Any) -> None:
    days = -5 * 1440
    records = [*checks(days, days, LOST), did(days + 1, "drain"), hook("prolog", days + 60, 3)]
    found = tell([*records, *checks(0, 100)])
    assert (found["would"]["most_out"], found["did"]["most_out"]) == (0, 0)


def test_what_is_held_again_hours_later_is_told_again(tell: Any) -> None:
    none = {"budget": {"nodes": 0}}
    found = tell([*checks(0, 40, LOST), *checks(50, 200), *checks(210, 210, LOST)], **none)
    assert [(one["at"], one["times"]) for one in found["held"]] == [(at(0), 5), (at(210), 1)]


def test_why_it_was_not_drained_then(tell: Any) -> None:
    noted = {"fault": "gpu_count.lost", "device": "gpu1", "action": "tell", "why": "seen in 1 run(s), 2 of 3"}
    held = did(0.5, "drain")
    held["actions"][0].update(outcome="held", why="no room in the budget")
    assert tell([*checks(0, 0, LOST, decisions=[noted])])["only_would"][0]["then"] == noted["why"]
    assert tell([held])["only_would"][0]["then"] == "held: no room in the budget"
