"""Checks that are new to the plan: they only observe at first, whatever their mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from slurm_guard.config import apply as applying
from slurm_guard.config import load, newcomers
from slurm_guard.core import plan as plans
from tests.unit.config.samples import WHOLE, places_with

if TYPE_CHECKING:
    from pathlib import Path

    from slurm_guard.config.apply import Applied

DAY = 86400
ENFORCE = "[[mode]]\nmode = 'enforce'\n"
WITHOUT = "[checks.heat]\nenabled = false\n" + ENFORCE
NODES = "[[class]]\nname = 'k'\nnodes = 'k[1-4]'\n"


@pytest.fixture(autouse=True)
def catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = load.read
    monkeypatch.setattr(load, "read", lambda places: whole(places, WHOLE))


def apply(root: Path, text: str, now: int, **options: Any) -> Applied:
    return applying.apply(places_with(root, text), now=now, **options)


def plan(root: Path, now: float) -> plans.Plan:
    return plans.load(places_with(root).plan, "k1", now=now)


def test_nothing_is_new_to_the_first_plan(tmp_path: Path) -> None:
    applied = apply(tmp_path, ENFORCE, 1000)
    assert (applied.bundle["check_since"], applied.observed, applied.newcomers) == ({}, {}, [])
    assert plan(tmp_path, 1001).mode("heat", "drain") == "enforce"


@pytest.mark.parametrize(
    ("action", "mode"), [("drain", "observe"), ("refuse", "observe"), ("resume", "enforce")]
)
def test_a_new_check_only_observes_for_a_day_but_its_nodes_come_back(
    tmp_path: Path, action: str, mode: str
) -> None:
    apply(tmp_path, WITHOUT, 1000)
    applied = apply(tmp_path, ENFORCE, 5000)
    assert applied.bundle["check_since"] == {"heat": 5000}
    assert applied.as_dict()["new_checks"] == {"heat": 5000 + DAY}
    assert "heat is new to the plan" in applied.newcomers[0]
    assert plan(tmp_path, 5000 + DAY - 1).mode("heat", action) == mode
    assert plan(tmp_path, 5000 + DAY - 1).mode("fan_speed", action) == "enforce"
    assert plan(tmp_path, 5000 + DAY).mode("heat", action) == "enforce"


def test_the_same_settings_again_give_the_same_plan(tmp_path: Path) -> None:
    apply(tmp_path, WITHOUT, 1000)
    first = apply(tmp_path, ENFORCE, 5000)
    again = apply(tmp_path, ENFORCE, 9000)
    assert (again.changed, again.bundle["hash"]) == (False, first.bundle["hash"])
    changed = apply(tmp_path, ENFORCE + "[budget]\nnodes = 9\n", 9500)
    assert changed.bundle["check_since"] == {"heat": 5000}


def test_an_admin_approves_what_is_new_and_that_is_another_plan(tmp_path: Path) -> None:
    apply(tmp_path, WITHOUT, 1000)
    observed = apply(tmp_path, ENFORCE, 5000)
    approved = apply(tmp_path, ENFORCE, 6000, approve_new=True)
    assert approved.changed  # else no node would fetch it
    assert approved.previous_hash == observed.bundle["hash"]
    assert approved.newcomers == ["heat is no longer new to the plan: its modes hold from now on"]
    assert plan(tmp_path, 6001).mode("heat", "drain") == "enforce"
    assert not apply(tmp_path, ENFORCE, 7000).changed


def test_a_check_that_was_off_for_a_while_is_new_again(tmp_path: Path) -> None:
    for now, text in ((1000, ENFORCE), (2000, WITHOUT), (3000, ENFORCE)):
        applied = apply(tmp_path, text, now)
    assert applied.bundle["check_since"] == {"heat": 3000}


def test_a_check_that_some_nodes_had_is_not_new(tmp_path: Path) -> None:
    apply(tmp_path, WITHOUT + NODES + "[class.checks.heat]\nenabled = true\n", 1000)
    assert apply(tmp_path, ENFORCE + NODES, 2000).bundle["check_since"] == {}


@pytest.mark.parametrize("window", [0, 60])
def test_the_window_is_set_in_seconds_and_none_switches_it_off(tmp_path: Path, window: int) -> None:
    setting = f"new_check_s = {window}\n"
    apply(tmp_path, setting + WITHOUT, 1000)
    applied = apply(tmp_path, setting + ENFORCE, 2000)
    assert applied.observed == ({"heat": 2060} if window else {})
    assert plan(tmp_path, 2030).mode("heat", "drain") == ("observe" if window else "enforce")


def test_what_is_observed_or_off_by_its_mode_stays_so(tmp_path: Path) -> None:
    modes = "[[mode]]\ncheck = 'heat'\naction = 'drain'\nmode = 'off'\n"
    apply(tmp_path, "[checks.heat]\nenabled = false\n" + modes, 1000)
    apply(tmp_path, modes, 2000)
    found = plan(tmp_path, 2001)
    assert (found.mode("heat", "drain"), found.held_back_until("heat", "drain")) == ("off", 0.0)
    assert (found.mode("heat", "refuse"), found.held_back_until("heat", "refuse")) == ("observe", 0.0)


def test_a_damaged_plan_approves_nothing(tmp_path: Path) -> None:
    apply(tmp_path, WITHOUT, 1000)
    apply(tmp_path, WITHOUT + "[budget]\nnodes = 9\n", 2000)
    (tmp_path / "var/lib/slurm-guard/plan.json").write_text("{")
    assert apply(tmp_path, ENFORCE, 3000).bundle["check_since"] == {"heat": 3000}


def test_a_plan_that_names_no_checks_makes_none_new() -> None:
    after = {"default_profile": {"checks": {"heat": {}}}}
    assert newcomers.since({"default_profile": {}}, after, 7) == {}
    assert newcomers.since({"default_profile": {"checks": {}}}, after, 7) == {"heat": 7}
