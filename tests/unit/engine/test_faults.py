"""Open faults: what opens them, what proves them gone, and when clean runs count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurm_guard.core.outcome import CheckResult, Finding
from slurm_guard.core.paths import Places
from slurm_guard.engine import faults, judge


def finding(fault: str, status: str = "fail", tier: str = "DRAIN", event: bool = False) -> Finding:
    check, _, code = fault.partition(".")
    found = Finding(status, "", code=code, device="gpu3", tier=tier, event=event)
    found.check = check
    return found


def runs(found: faults.OpenFaults, *steps: tuple[list[Finding], set[str], str]) -> None:
    for findings, judged, boot in steps:
        tiers = {(one.fault, one.device or ""): one.tier or "" for one in findings}
        found.update(findings, judged, tiers, boot, "t", counts=True)


LINK, XID = finding("ib_link.down"), finding("gpu_xid.79", tier="DRAIN_REBOOT", event=True)

TABLE = [
    (
        "a state fault is gone when it is not seen",
        [([LINK], {"ib_link"}, "a"), ([], {"ib_link"}, "a")],
        [],
        1,
    ),
    (
        "but not when its check could not judge",
        [([LINK], {"ib_link"}, "a"), ([], set(), "a")],
        ["ib_link.down gpu3"],
        0,
    ),
    ("an event stays", [([XID], {"gpu_xid"}, "a"), ([], {"gpu_xid"}, "a")], ["gpu_xid.79 gpu3"], 0),
    ("until the machine was booted", [([XID], {"gpu_xid"}, "a"), ([], {"gpu_xid"}, "b")], [], 1),
    ("warnings open nothing", [([finding("x.y", "warn")], {"x"}, "a")], [], 1),
    ("nor do faults of a mild tier", [([finding("x.y", tier="JOB")], {"x"}, "a")], [], 1),
    ("clean runs add up", [([], {"ib_link"}, "a")] * 3, [], 3),
    ("and start anew", [([], set(), "a"), ([LINK], set(), "a"), ([], {"ib_link"}, "a")], [], 1),
]


@pytest.mark.parametrize(("case", "steps", "still_open", "clean"), TABLE, ids=[row[0] for row in TABLE])
def test_table(
    case: str, steps: list[tuple[list[Finding], set[str], str]], still_open: list[str], clean: int
) -> None:
    found = faults.OpenFaults()
    runs(found, *steps)
    assert sorted(found.open) == still_open
    assert found.clean_runs == clean


def test_they_survive_on_disk_and_a_torn_file_is_none(tmp_path: Path) -> None:
    places = Places(str(tmp_path))
    faults.change(places, lambda found: runs(found, ([XID], {"gpu_xid"}, "a")))
    assert list(faults.load(places).open) == ["gpu_xid.79 gpu3"]
    Path(places.faults).write_text('{"version": 1, "open": [7], "refu')
    assert faults.load(places).open == {}


def test_refusals_are_kept_for_an_hour() -> None:
    found = faults.OpenFaults()
    found.note_refusal(1000.0)
    found.note_refusal(5000.0)
    assert found.refusals == [5000.0]


def test_a_refusal_that_was_none_is_taken_back() -> None:
    found = faults.OpenFaults()
    found.note_refusal(1000.0)
    found.note_refusal(1001.0)
    found.take_back_refusal(1001.0)
    assert found.refusals == [1000.0]


def test_a_check_that_no_longer_applies_proves_nothing_gone() -> None:
    """A driver that answers N/A since its update has not mended a GPU."""
    gone = CheckResult("gpu_remap", [Finding("skip", "not supported")])
    fine = CheckResult("gpu_ecc", [Finding("skip", "not supported"), Finding("pass")])
    assert judge.judged([gone, fine, CheckResult("fs_mounts", [])]) == {"gpu_ecc"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("open", {"gpu_xid.79 gpu3": 5}),
        ("open", {"gpu_xid.79 gpu3": {"fault": "gpu_xid.79", "runs": 1}}),
        ("open", {"gpu_xid.79 gpu3": {"check": "gpu_xid", "runs": "1"}}),
        ("clean_runs", "3"),
        ("drained", "SG:gpu_xid.79 gpu3"),
        ("asked", {"at": 5}),
        ("refusals", ["soon", None]),
    ],
)
def test_what_was_not_written_so_is_left_out(name: str, value: Any) -> None:
    """Else every run would fail on it, until somebody looks."""
    found = faults.OpenFaults({"version": 1, name: value})
    assert found.claim is None
    assert not found.waiting_events("b")
    found.note_refusal(1000.0)
    found.update([], {"gpu_xid"}, {}, "b", "2026-01-02T03:04:05.000Z", counts=True)
    assert (found.open, found.clean_runs, found.refusals) == ({}, 1, [1000.0])
