"""The node plan: whatever is wrong with the file, a plan comes back and says so."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core import plan as plans


def bundle(**changes: Any) -> dict[str, Any]:
    content = {
        "schema": "1.0",
        "built_at": 1_000_000.0,
        "cluster": "blue",
        "owners": ["root", "slurm", "guard"],
        "deadlines": {"prolog": 6},
        "tiers": {"gpu_xid.31": "WARN", "ib_link": "NOTE"},
        "profiles": [
            {
                "class": "4xA100",
                "checks": {"gpu_count": {"gpus": 4}, "ib_link": {}},
                "expected": {"gpus": 4},
                "references": {"ib_rate": [200, -0.05, None, "Gb/s"]},
                "modes": [["*", "drain", "enforce"], ["ib_*", "drain", "observe"], ["ib_link", "*", "off"]],
            }
        ],
        "default_profile": {"class": ""},
        "nodes": {"gn01": 0, "gn02": 0},
        **changes,
    }
    content["hash"] = plans.digest(content)
    return content


def write(folder: Path, content: Any) -> str:
    path = folder / "plan.json"
    path.write_text(json.dumps(content))
    return str(path)


def test_a_node_finds_its_part(tmp_path: Path) -> None:
    plan = plans.load(write(tmp_path, bundle()), "gn02", now=1_000_100.0)
    assert (plan.state, plan.node_class, plan.expected) == ("ok", "4xA100", {"gpus": 4})
    assert plan.deadlines == {"prolog": 6, "epilog": 20.0, "healthcheck": 20.0}
    assert plan.all_nodes == ["gn01", "gn02"]


def test_a_node_that_is_not_named_gets_the_default_part(tmp_path: Path) -> None:
    plan = plans.load(write(tmp_path, bundle()), "login1", now=1_000_100.0)
    assert plan.checks is None
    assert plan.mode("gpu_count", "drain") == "observe"


MODES = [
    ("gpu_count", "drain", "enforce"),
    ("gpu_count", "refuse", "observe"),
    ("ib_errors", "drain", "observe"),
    ("ib_link", "drain", "off"),
    ("ib_link", "resume", "off"),
]


@pytest.mark.parametrize(("check", "action", "wanted"), MODES)
def test_the_last_mode_that_matches_counts(tmp_path: Path, check: str, action: str, wanted: str) -> None:
    assert plans.load(write(tmp_path, bundle()), "gn01", now=1_000_100.0).mode(check, action) == wanted


def test_a_tier_by_fault_goes_before_one_by_check(tmp_path: Path) -> None:
    plan = plans.load(write(tmp_path, bundle()), "gn01", now=1_000_100.0)
    found = [plan.tier(fault, "DRAIN") for fault in ("gpu_xid.31", "ib_link.down", "gpu_xid.79")]
    assert found == ["WARN", "NOTE", "DRAIN"]


def test_no_plan_means_the_defaults(tmp_path: Path) -> None:
    plan = plans.load(str(tmp_path / "plan.json"), "gn01")
    assert plan.state == "default"
    assert "sguard config apply" in plan.problem


BROKEN = [
    (lambda b: json.dumps(b)[:-40], "torn"),
    (lambda b: "", "torn"),
    (lambda b: "[" * 100_000, "torn"),
    (lambda b: "[1]", "foreign"),
    (lambda b: json.dumps({**b, "schema": "7.0"}), "foreign"),
    (lambda b: json.dumps({**b, "cluster": "red"}), "foreign"),
    (lambda b: json.dumps(bundle(profiles=[])), "foreign"),
    (lambda b: json.dumps(bundle(budget=3)), "foreign"),
]


@pytest.mark.parametrize(("spoil", "state"), BROKEN)
def test_a_broken_plan_is_told_and_the_defaults_apply(tmp_path: Path, spoil: Any, state: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(spoil(bundle()))
    plan = plans.load(str(path), "gn01", now=1_000_100.0)
    assert plan.state == state
    assert plan.modes == []
    assert "sguard config apply" in plan.problem


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/null", path)])
def test_what_is_no_file_is_no_plan(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "plan.json")
    plan = plans.load(str(tmp_path / "plan.json"), "gn01")
    assert plan.state in ("torn", "foreign")
    assert "sguard config apply" in plan.problem


def test_a_sealed_plan_says_the_same_as_a_plain_one(tmp_path: Path) -> None:
    plain = plans.load(write(tmp_path, bundle()), "gn01", now=1_000_100.0)
    (tmp_path / "plan.json").write_bytes(plans.encode(bundle()))
    sealed = plans.load(str(tmp_path / "plan.json"), "gn01", now=1_000_100.0)
    assert vars(sealed) == vars(plain)
    assert sealed.state == "ok"


def test_the_seal_changes_neither_hash_nor_file() -> None:
    once = plans.encode(bundle())
    again = json.loads(once)
    assert again.pop("seal")
    assert again == bundle()
    assert plans.encode(json.loads(once)) == once
    assert plans.digest(json.loads(once)) == bundle()["hash"]


SEALED = plans.encode(bundle())


@given(st.integers(0, len(SEALED) - 1), st.integers(1, 255))
def test_no_damaged_byte_of_a_sealed_plan_is_taken(
    tmp_path_factory: pytest.TempPathFactory, at: int, change: int
) -> None:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    path.write_bytes(SEALED[:at] + bytes([SEALED[at] ^ change]) + SEALED[at + 1 :])
    assert plans.load(str(path), "gn01", now=1_000_100.0).state in ("torn", "foreign")


@given(st.integers(0, len(SEALED) - 1))
def test_no_cut_off_sealed_plan_is_taken(tmp_path_factory: pytest.TempPathFactory, length: int) -> None:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    path.write_bytes(SEALED[:length])
    assert plans.load(str(path), "gn01", now=1_000_100.0).state == "torn"


def test_an_old_plan_is_stale_and_still_used(tmp_path: Path) -> None:
    plan = plans.load(write(tmp_path, bundle()), "gn01", now=1_000_000.0 + 40 * 86400)
    assert plan.state == "stale"
    assert plan.node_class == "4xA100"


@given(st.binary(max_size=300))
def test_any_bytes_give_a_plan(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    path.write_bytes(content)
    assert plans.load(str(path), "gn01").state in ("torn", "foreign")


@pytest.mark.parametrize(
    ("group", "mode", "state"), [(0, 0o660, "ok"), (65534, 0o660, "foreign"), (65534, 0o640, "ok")]
)
@pytest.mark.needs_root
def test_a_plan_that_another_group_may_write_is_not_roots(
    tmp_path: Path, group: int, mode: int, state: str
) -> None:
    path = write(tmp_path, bundle())
    os.chown(path, 0, group)
    os.chmod(path, mode)
    assert plans.load(path, "gn01", 1_000_100.0).state == state
