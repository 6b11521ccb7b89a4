"""Records become rows once, whole, and in the right tables."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from slurm_guard.core.errors import StoreError
from slurm_guard.store import Store, open_store, schema
from slurm_guard.store.record import Record, parse
from slurm_guard.store.writer import Writer, ingest
from tests.unit.store.factory import action, action_record, finding, job, ms, run, uuid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def read(*records: dict[str, Any]) -> list[Record]:
    return [parse(json.dumps(record).encode()) for record in records]


def rows(store: Store, table: Any) -> list[dict[str, Any]]:
    with store.read() as connection:
        return [dict(row._mapping) for row in connection.execute(select(table).order_by(*table.primary_key))]


def count(store: Store) -> dict[str, int]:
    return {name: len(rows(store, table)) for name, table in schema.metadata.tables.items() if name != "meta"}


def test_a_clean_healthcheck_is_one_row(store: Store) -> None:
    one, other = read(run("healthcheck", "gx1", 0), run("healthcheck", "gx1", 5))
    Writer(store).write([one])
    before = count(store)
    written = Writer(store).write([other])
    grown = {name: more - before[name] for name, more in count(store).items() if more != before[name]}
    assert (written.rows, grown) == (1, {"runs": 1})


def test_every_identity_field_is_kept(store: Store) -> None:
    record = run(
        "epilog", "gx1", 60,
        finding("gpu_ecc.uncorrected", device="gpu5", metric="ecc_uncorrected", value=2, unit="errors",
                reference=[0, None, 0], event=True, since="2027-03-09T08:40:00.000Z", remedy="Reset it."),
        allocation=job(44, "gx1", 0, array_job_id=40, array_task_id=3, exit_code="9:0"),
        others=[{"job_id": 45, "uid": 7, "user": "noor", "gpus": ["6"]}],
        coverage={"kmsg": "kernel lines were lost"}, drill=True, dropped=2,
        plan={"hash": "ab" * 16, "state": "stale", "problem": "31 days old"},
        weather="mild",
    )  # fmt: skip
    Writer(store).write(read(record))
    (kept,) = rows(store, schema.runs)
    assert kept["run_id"].hex() == record["run_id"]
    assert (kept["hook"], kept["started"], kept["status"], kept["mode"]) == (
        "epilog",
        ms(60),
        "fail",
        "enforce",
    )
    assert (kept["drill"], kept["dropped"], kept["job_id"], kept["schema"]) == (1, 2, 44, "1.0")
    assert json.loads(kept["others"])[0]["job_id"] == 45
    assert json.loads(kept["coverage"]) == record["coverage"]
    assert json.loads(kept["extra"]) == {"weather": "mild"}
    (node,), (boot,), (guard,) = (
        rows(store, schema.nodes),
        rows(store, schema.boots),
        rows(store, schema.guards),
    )
    assert (node["cluster"], node["name"]) == ("aurora", "gx1")
    assert (boot["boot_id"], boot["machine_id"], boot["serial"]) == ("boot-gx1", "id-gx1", "SNgx1")
    assert (guard["plan_state"], guard["plan_problem"], guard["check_set"]) == (
        "stale",
        "31 days old",
        "c0ffee00",
    )
    (found,) = rows(store, schema.findings)
    assert (found["fault"], found["device"], found["device_id"]) == ("gpu_ecc.uncorrected", "gpu5", uuid(5))
    assert (found["value"], found["unit"], found["reference"], found["event"]) == (
        2.0,
        "errors",
        "[0,null,0]",
        1,
    )
    assert (found["scope"], found["tier"], found["remedy"]) == ("device", "DRAIN", "Reset it.")
    (allocation,) = rows(store, schema.allocations)
    assert (allocation["array_job_id"], allocation["array_task_id"], allocation["exit_code"]) == (
        40,
        3,
        "9:0",
    )


def test_passing_and_skipped_findings_have_no_rows(store: Store) -> None:
    record = run(
        "healthcheck", "gx1", 0, finding("gpu_ecc", "warn", "gpu1"), finding("gpu_ecc", "skip", "gpu2")
    )
    Writer(store).write(read(record))
    assert [row["device"] for row in rows(store, schema.findings)] == ["gpu1"]


def test_the_same_name_on_another_machine_is_another_node(store: Store) -> None:
    moved = run("healthcheck", "gx1", 5)
    moved["machine"] = {"boot_id": "b", "machine_id": "another", "serial": "SN-new"}
    Writer(store).write(read(run("healthcheck", "gx1", 0), moved))
    assert len(rows(store, schema.nodes)) == 1
    assert {row["machine_id"] for row in rows(store, schema.boots)} == {"id-gx1", "another"}


def test_a_record_counts_once_within_a_batch_and_between(store: Store) -> None:
    record = run("healthcheck", "gx1", 0, finding("ib_link.down", device="mlx5_2/1"))
    once = Writer(store).write(read(record, record))
    before = count(store)
    again = Writer(store).write(read(record))
    assert (once.new, once.duplicates, again.new, again.duplicates) == ([0], [1], [], [0])
    assert count(store) == before


def test_other_content_under_a_known_run_id_is_refused_not_dropped(store: Store) -> None:
    record = run("healthcheck", "gx1", 0)
    written = Writer(store).write(read(record, {**record, "node": "gx2"}))
    assert written.new == [0]
    assert written.refused[0][0] == 1
    assert "run_id" in written.refused[0][1]


def test_what_no_table_holds_is_refused_and_the_rest_is_written(store: Store) -> None:
    record = run("healthcheck", "gx1", 0, weather=json.loads("1e999"))
    content = json.dumps({**record, "weather": 0}).replace('"weather": 0', '"weather": 1e999').encode()
    written = Writer(store).write(
        [*read(run("healthcheck", "gx1", 5)), parse(content), *read(run("healthcheck", "gx1", 9))]
    )
    assert (written.new, [position for position, _ in written.refused]) == ([0, 2], [1])
    assert len(rows(store, schema.runs)) == 2


def test_samples_keep_values_and_growths(store: Store) -> None:
    record = run(
        "epilog", "gx1", 9, allocation=job(3, "gx1", 0),
        values={"gpu_temperature gpu0": 41, "pcie_replay gpu0": 18446744073709551615},
        growths={"pcie_replay gpu0": 4, "ib_symbol_errors mlx5_0/1": 3},
    )  # fmt: skip
    Writer(store).write(read(record))
    names = {row["id"]: row["name"] for row in rows(store, schema.series)}
    kept = {names[row["series"]]: (row["value"], row["growth"]) for row in rows(store, schema.node_samples)}
    assert kept == {
        "gpu_temperature gpu0": (41.0, None),
        "pcie_replay gpu0": (float(2**64), 4.0),
        "ib_symbol_errors mlx5_0/1": (None, 3.0),
    }


def test_actions_of_hooks_and_of_people_are_kept(store: Store) -> None:
    hook = run("epilog", "gx1", 9, actions=[action("drain", 9, "gpu_count.lost", "gpu3", job_id=3)])
    person = action_record("gx1", 70, action("resume", 70, "gpu_count.lost", "gpu3"), by="cli", user="root")
    person["parent"] = hook["run_id"]
    Writer(store).write(read(hook, person))
    assert [(row["action"], row["outcome"], row["at"]) for row in rows(store, schema.actions)] == [
        ("drain", "done", ms(9)),
        ("resume", "done", ms(70)),
    ]
    asked = rows(store, schema.runs)[1]
    assert (asked["kind"], asked["hook"], asked["user"], asked["parent"].hex()) == (
        "action",
        "cli",
        "root",
        hook["run_id"],
    )


PROLOG = run("prolog", "gx1", 0, allocation=job(9, "gx1", 0, restart=0))
# What a requeue does: the epilog's own count is the next run's. Its prolog's file has the right one.
EPILOG = run("epilog", "gx1", 30, allocation=job(9, "gx1", 0, restart=0, exit_code="0:15"))


@pytest.mark.parametrize("order", [(PROLOG, EPILOG), (EPILOG, PROLOG)], ids=["in order", "epilog first"])
def test_prolog_and_epilog_meet_in_one_allocation(store: Store, order: tuple[dict[str, Any], ...]) -> None:
    for record in order:
        Writer(store).write(read(record))
    (row,) = rows(store, schema.allocations)
    assert (row["opened"], row["restart"], row["restart_sure"], row["exit_code"]) == (ms(0), 0, 1, "0:15")
    assert None not in (row["prolog_run"], row["epilog_run"], row["closed"])


@pytest.mark.parametrize("order", [1, -1], ids=["prolog first", "epilog first"])
def test_a_prologs_word_counts_more_than_an_epilogs(store: Store, order: int) -> None:
    epilog = run("epilog", "gx1", 30, allocation=job(9, "gx1", 0, restart=1, user="", exit_code="0:0"))
    for record in (PROLOG, epilog)[::order]:
        Writer(store).write(read(record))
    (row,) = rows(store, schema.allocations)
    assert (row["restart"], row["user"]) == (0, "mira")


def test_an_epilog_without_a_prolog_is_legal_and_unsure(store: Store) -> None:
    given = job(9, "gx1", 0, restart=1)
    del given["opened_at"]
    Writer(store).write(read(run("epilog", "gx1", 30, allocation=given)))
    (row,) = rows(store, schema.allocations)
    assert (row["opened"], row["opened_sure"], row["restart_sure"], row["prolog_run"]) == (ms(30), 0, 0, None)


def test_numbers_given_in_a_failed_transaction_are_not_used_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(store)

    def fail(*_: object) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("slurm_guard.store.writer.insert", fail)
        with pytest.raises(StoreError, match="full"):
            writer.write(read(run("healthcheck", "gx1", 0)))
    assert not any(count(store).values())
    writer.write(read(run("healthcheck", "gx2", 0), run("healthcheck", "gx1", 0)))
    names = {row["id"]: row["name"] for row in rows(store, schema.nodes)}
    assert [names[row["node_id"]] for row in rows(store, schema.runs)] == ["gx2", "gx1"]


def test_order_and_batches_make_no_difference(tmp_path: Path) -> None:
    draw = random.Random(7)
    records = [
        record
        for number in range(12)
        for record in (
            run("prolog", f"gx{number % 3}", number, allocation=job(number, "gx", number)),
            run(
                "epilog",
                f"gx{number % 3}",
                number + 9,
                finding("gpu_ecc", device="gpu1"),
                allocation=job(number, "gx", number),
            ),
        )
    ]
    seen = []
    for number, size in enumerate((1, 5, 100)):
        shuffled = draw.sample(records, len(records))
        with open_store(tmp_path / f"{number}.sqlite") as store:
            total = ingest(store, read(*shuffled, *shuffled[:5]), size)
            assert (len(total.new), len(total.duplicates)) == (24, 5)
            kept = sorted(
                (row["job_id"], row["opened"], row["closed"]) for row in rows(store, schema.allocations)
            )
            seen.append((kept, count(store)))
    assert seen[0] == seen[1] == seen[2]
