"""How long and how often a fault was seen: over runs, boots, torn files and clocks that jump."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slurm_guard.core.outcome import Finding
from slurm_guard.core.paths import Places
from slurm_guard.engine import sightings
from slurm_guard.engine.sightings import Sightings

LINK = ("ib_link.down", "mlx5_1/1")


def finding(fault: str = "ib_link.down", device: str = "mlx5_1/1", **fields: Any) -> Finding:
    check, _, code = fault.partition(".")
    found = Finding("fail", "", code=code, device=device, **fields)
    found.check = check
    return found


def after(runs: list[tuple[float, list[Finding]]], boot: str = "b1") -> Sightings:
    found = Sightings()
    for at, findings in runs:
        found.note(findings, {"ib_link", "gpu_xid", "gpu_ecc"}, boot, at)
    return found


def test_a_state_lasts_until_it_is_judged_clean() -> None:
    found = after([(1000.0, [finding()]), (1300.0, [finding()]), (1600.0, [finding()])])
    lasting, began = found.ages(1660.0)
    assert lasting[LINK] == 660.0
    assert began[LINK] == [660.0]
    found.note([], {"gpu_count"}, "b1", 1900.0)  # ib_link was not judged
    assert found.ages(1900.0)[0][LINK] == 900.0
    found.note([], {"ib_link"}, "b1", 2200.0)
    assert found.ages(2200.0)[0][LINK] == 0.0
    found.note([finding()], {"ib_link"}, "b1", 2500.0)
    lasting, began = found.ages(2500.0)
    assert (lasting[LINK], began[LINK]) == (0.0, [1500.0, 0.0])


def test_one_event_seen_by_the_healthcheck_and_by_the_epilog_began_once() -> None:
    event = finding("gpu_xid.31", "gpu2", event=True, since="512 s after boot")
    found = after([(1000.0, [event]), (9000.0, [event])])
    assert found.ages(9000.0)[1]["gpu_xid.31", "gpu2"] == [8000.0]


def test_the_epilog_tells_an_older_event_than_the_last_one_once_more() -> None:
    first = finding("gpu_xid.31", "gpu2", event=True, since="512 s after boot")
    second = finding("gpu_xid.31", "gpu2", event=True, since="2900 s after boot")
    found = after([(1000.0, [first]), (3400.0, [second]), (9000.0, [first])])
    assert found.ages(9000.0)[1]["gpu_xid.31", "gpu2"] == [8000.0, 5600.0]


def test_another_event_and_the_same_second_of_another_boot_begin_anew() -> None:
    first = finding("gpu_xid.31", "gpu2", event=True, since="512 s after boot")
    second = finding("gpu_xid.31", "gpu2", event=True, since="513 s after boot")
    found = after([(1000.0, [first]), (1001.0, [second])])
    found.note([second], set(), "b2", 1002.0)
    assert found.ages(1002.0)[1]["gpu_xid.31", "gpu2"] == [2.0, 1.0, 0.0]


def test_an_event_without_its_own_time_is_told_apart_by_ours() -> None:
    grown = finding("gpu_ecc.uncorrected", "gpu2", event=True)
    found = after([(1000.0, [grown]), (1500.0, [grown]), (9000.0, [grown])])
    assert found.ages(9000.0)[1]["gpu_ecc.uncorrected", "gpu2"] == [8000.0, 0.0]


@pytest.mark.parametrize("status", ["pass", "skip", "unknown", "warn"])
def test_only_what_failed_or_hung_is_a_sighting(status: str) -> None:
    found = finding()
    found.status = status
    assert after([(1000.0, [found])]).faults == {}


def test_a_clock_that_jumps_back_makes_no_negative_age() -> None:
    found = after([(5000.0, [finding()]), (100.0, [finding()])])
    lasting, began = found.ages(100.0)
    assert lasting[LINK] == 0.0
    assert all(age >= 0.0 for age in began[LINK])


def test_what_is_old_is_forgotten_and_the_number_is_bounded() -> None:
    found = after([(1000.0, [finding(device=f"mlx5_{i}/1") for i in range(300)])])
    assert len(found.faults) == 256
    found.note([], set(), "b1", 1000.0 + sightings.OLDEST_S + 1)
    assert found.faults == {}
    flapping = after([(t * 1000.0, [finding()] if t % 2 else []) for t in range(200)])
    assert len(flapping.faults["ib_link.down mlx5_1/1"]["began"]) == 32


@pytest.fixture
def places(tmp_path: Path) -> Places:
    found = Places(str(tmp_path))
    Path(found.var).mkdir(parents=True)
    Path(found.run).mkdir(parents=True)
    return found


def test_it_survives_on_disk_and_is_not_rewritten_for_nothing(places: Places) -> None:
    sightings.save(places, [finding()], {"ib_link"}, "b1")
    kept = sightings.load(places)
    assert list(kept.faults) == ["ib_link.down mlx5_1/1"]
    before = Path(places.sightings).stat()
    sightings.save(places, [], {"gpu_count"}, "b1")
    assert Path(places.sightings).stat().st_ino == before.st_ino


def test_this_run_counts_before_it_is_written(places: Places) -> None:
    found = sightings.with_run(places, [finding()], {"ib_link"}, "b1")
    assert len(found.ages(0.0)[1][LINK]) == 1
    assert not Path(places.sightings).exists()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        '{"version": 2, "faults": {"a": {"since": 1, "last": 1, "began": [], "events": []}}}',
        '{"version": 1, "faults": 7}',
        '{"version": 1, "faults": {"a b": 3}}',
        '{"version": 1, "faults": {"a b": {"since": "x", "last": 1, "began": [], "events": []}}}',
        '{"version": 1, "faults": {"a b": {"since": null, "last": 1, "began": 5, "events": []}}}',
        '{"version": 1, "faults": {"a b": {"since": null, "last": "1", "began": [], "events": []}}}',
        '{"version": 1, "faults": {"a b": {"since": null, "last": 1, "began": []}}}',
    ],
)
def test_a_torn_or_foreign_file_is_nothing(places: Places, content: str) -> None:
    Path(places.sightings).write_text(content)
    assert sightings.load(places).faults == {}
    sightings.save(places, [finding()], {"ib_link"}, "b1")
    assert json.loads(Path(places.sightings).read_text())["version"] == 1
