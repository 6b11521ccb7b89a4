"""Plan and configuration: there, whole, fresh, the same, and for this node."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from slurm_guard.doctor import plan
from slurm_guard.doctor.subject import Subject
from tests.unit.doctor.sites import NODE, site, told

if TYPE_CHECKING:
    from pathlib import Path


def test_a_fresh_plan(tmp_path: Path) -> None:
    subject = site(tmp_path)
    assert told(plan.examine, subject) == []
    assert any(one.what.startswith("observe: no node is drained") for one in plan.examine(subject))


def test_no_plan(tmp_path: Path) -> None:
    places = site(tmp_path).places
    (tmp_path / "var/lib/slurm-guard/plan.json").unlink()
    ((status, what),) = told(plan.examine, Subject(places, NODE))
    assert status == "warn"
    assert what.startswith("no plan at ")


def test_a_torn_plan(tmp_path: Path) -> None:
    places = site(tmp_path).places
    (tmp_path / "var/lib/slurm-guard/plan.json").write_text("{")
    ((status, what),) = told(plan.examine, Subject(places, NODE))
    assert status == "fail"
    assert what.endswith("the built-in defaults apply")


def test_a_stale_plan(tmp_path: Path) -> None:
    places = site(tmp_path).places
    ((status, what),) = told(plan.examine, Subject(places, NODE, now=time.time() + 40 * 86400))
    assert status == "warn"
    assert "40 days old" in what


def test_a_configuration_that_was_changed_since(tmp_path: Path) -> None:
    places = site(tmp_path).places
    with (tmp_path / "etc/slurm-guard/slurm-guard.toml").open("a") as file:
        file.write("[[mode]]\nmode = 'off'\n")
    found = told(plan.examine, Subject(places, NODE))
    assert found == [("warn", "the configuration was changed since the plan was made")]


def test_a_configuration_that_is_wrong(tmp_path: Path) -> None:
    places = site(tmp_path).places
    (tmp_path / "etc/slurm-guard/slurm-guard.toml").write_text("[budget]\nnodes = 'x'\n")
    ((status, what),) = told(plan.examine, Subject(places, NODE))
    assert status == "fail"
    assert "slurm-guard.toml:2: budget.nodes" in what


def test_a_node_in_no_class(tmp_path: Path) -> None:
    ((status, what),) = told(plan.examine, Subject(site(tmp_path).places, "elsewhere"))
    assert status == "warn"
    assert what.startswith("node 'elsewhere' is in no class")


def test_what_is_enforced_is_said(tmp_path: Path) -> None:
    rules = "[[mode]]\naction = 'drain'\nmode = 'enforce'\n[[mode]]\nmode = 'enforce'\ncheck = 'nvml'\n"
    words = [one.what for one in plan.examine(site(tmp_path, config=rules))]
    assert "enforced here for some checks: everything, drain" in words


def test_a_plan_that_was_made_elsewhere_needs_no_configuration_here(tmp_path: Path) -> None:
    places = site(tmp_path).places
    (tmp_path / "etc/slurm-guard/slurm-guard.toml").unlink()
    advice = list(plan.examine(Subject(places, NODE)))
    assert {one.status for one in advice} <= {"pass", "skip"}
    assert not any("built-in defaults" in one.what for one in advice)


def test_neither_configuration_nor_plan_is_one_thing_to_do(tmp_path: Path) -> None:
    places = site(tmp_path).places
    (tmp_path / "etc/slurm-guard/slurm-guard.toml").unlink()
    (tmp_path / "var/lib/slurm-guard/plan.json").unlink()
    ((status, what),) = told(plan.examine, Subject(places, NODE))
    assert (status, what.partition(":")[0]) == ("warn", "no configuration and no plan")


def test_a_node_that_only_a_mode_names_is_in_no_class(tmp_path: Path) -> None:
    text = "[[class]]\nname = 'k'\nnodes = 'c[1-6]'\n[[mode]]\nmode = 'off'\nnodes = 'c7'\n"
    found = told(plan.examine, site(tmp_path, config=text))
    assert (
        "warn",
        "node 'c7' is in no class: nothing is expected of it (counts, mounts, references)",
    ) in found


@pytest.mark.parametrize(
    ("more", "has_ports", "found"),
    [
        ("", False, ["fs_mounts: nothing expected in class k (`mounts`)"]),
        (
            "",
            True,
            [
                "fs_mounts: nothing expected in class k (`mounts`)",
                "ib_link: nothing expected in class k (`ib_ports`)",
            ],
        ),
        ("[[class.mounts]]\npath = '/a'\n", False, []),
        ("ib_ports = 0\n[[class.mounts]]\npath = '/a'\n", True, []),
        ("[class.checks.fs_mounts]\nenabled = false\n", False, []),
    ],
)
def test_a_check_with_nothing_to_compare_with_is_told(
    tmp_path: Path, more: str, has_ports: bool, found: list[str]
) -> None:
    if has_ports:
        (tmp_path / "sys/class/infiniband/mlx5_0").mkdir(parents=True)
    subject = site(tmp_path, config=f"[[class]]\nname = 'k'\nnodes = 'c[1-9]'\n{more}")
    assert told(plan.examine, subject) == [("warn", what) for what in found]
    advice = [one for one in plan.examine(subject) if one.what in found]
    assert all("enabled = false" in one.remedy for one in advice)
    quiet = [one.what for one in plan.examine(subject) if one.status == "skip"]
    assert "memory_size: nothing expected in class k (`memory_gib`)" in quiet
