"""`sguard policy show|test` on plans with and without rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slurm_guard.cli.main import main
from slurm_guard.config.apply import apply
from slurm_guard.core import check as registry
from slurm_guard.core.paths import Places

CONFIG = """
[policy]
"gpu_pcie.width" = "WARN"

[[class]]
name = "4xA100"
nodes = "a[1-4]"

[[rule]]
name = "again"
fault = "gpu_xid.31"
escalate = { after = 3, within_s = 43200, tier = "DRAIN_RESET" }

[[rule]]
fault = "ib_link"
hooks = ["healthcheck"]
node = "allocated"
runs = 4
of = 6
minimum_s = 1200
quiet = ["21:00-07:30"]

[[rule]]
fault = "fs_space"
action = "none"

[[rule]]
fault = "gpu_pcie.generation"
nodes = "a2"
action = "tell"

[[mode]]
action = "drain"
mode = "enforce"
nodes = "a[1-3]"

[[mode]]
check = "gpu_temperature"
mode = "off"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    places = Places(str(tmp_path))
    Path(places.etc).mkdir(parents=True)
    Path(places.config).write_text(CONFIG)
    apply(places)
    return tmp_path


def ask(capsys: pytest.CaptureFixture[str], root: Path, *arguments: str) -> dict[str, Any]:
    assert main(["policy", *arguments, "--root", str(root), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_every_fault_of_every_check_is_shown(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    shown = {one["fault"] for one in ask(capsys, root, "show", "-w", "a1")["faults"]}
    for name in registry.names():
        cls = registry.load(name)
        assert {f"{name}.{code}" for code in cls.faults} <= shown


#: node, fault, place → action, mode, needs; as the configuration above says
SHOWN = [
    ("a1", "gpu_count.lost", "prolog", "drain", "enforce", "once"),
    ("a4", "gpu_count.lost", "prolog", "refuse", "observe", "once"),
    ("a4", "gpu_count.lost", "epilog", "drain", "observe", "once"),
    ("a1", "gpu_pcie.width", "epilog", "tell", "enforce", "2 of 3"),
    ("a1", "gpu_pcie.generation", "epilog", "drain", "enforce", "2 of 3"),
    ("a2", "gpu_pcie.generation", "epilog", "tell", "enforce", "2 of 3"),
    ("a1", "ib_link.down", "epilog", "drain", "enforce", "2 of 3"),
    ("a1", "ib_link.down", "healthcheck", "drain", "enforce", "4 of 6, 1200 s"),
    ("a1", "ib_link.down", "idle", "drain", "enforce", "2 of 3"),
    ("a1", "fs_space.full", "healthcheck", "record", "", "2 of 3"),
    ("a1", "gpu_xid.31", "epilog", "tell", "enforce", "once"),
    ("a1", "gpu_temperature.slowdown", "healthcheck", "tell", "off", "2 of 3"),
]


@pytest.mark.parametrize(("node", "fault", "place", "action", "mode", "needs"), SHOWN)
def test_what_is_shown(
    capsys: pytest.CaptureFixture[str],
    root: Path,
    node: str,
    fault: str,
    place: str,
    action: str,
    mode: str,
    needs: str,
) -> None:
    found = {one["fault"]: one for one in ask(capsys, root, "show", "-w", node)["faults"]}[fault]
    assert found["hooks"][place] == {"action": action, "mode": mode, "needs": needs}


def test_the_page_fits_80_columns_and_names_the_rules(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    assert main(["policy", "show", "-w", "a1", "--root", str(root)]) == 0
    page = capsys.readouterr().out
    assert max(len(line) for line in page.splitlines()) <= 80
    text = " ".join(page.split())
    assert "policy of a1, class 4xA100" in text
    assert "rule again: gpu_xid.31: DRAIN_RESET when begun 3 times within 12 h" in text
    assert "rule #2: ib_link in healthcheck while a job is on the node: seen in 4 of 6 runs" in text
    assert "for 1200 s; waits 21:00-07:30" in text
    assert "rule #3: fs_space: recorded only" in text
    assert "rule #4" not in text  # another node's
    assert "drain when seen in 4 of 6 runs, for 1200 s without a break in healthcheck" in text


def test_modes_and_nodes_without_a_class_are_told(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    assert main(["policy", "show", "-w", "elsewhere", "--root", str(root)]) == 0
    shown = capsys.readouterr()
    assert "policy of elsewhere, in no class" in shown.out
    assert "(in brackets): the mode is observe" in shown.out
    assert "(drain)" in shown.out
    assert "in no class of the plan" in shown.err


#: options → action, mode, tier, will act, a part of why, rules
TESTED: list[tuple[list[str], str, str, str, bool, str, list[str]]] = [
    (["--fault", "gpu_xid.79"], "drain", "enforce", "DRAIN_REBOOT", True, "tier DRAIN_REBOOT", []),
    (["--fault", "gpu_xid.79", "-w", "a4"], "drain", "observe", "DRAIN_REBOOT", False, "tier", []),
    (["--fault", "gpu_xid.31", "--began", "2"], "tell", "enforce", "JOB", False, "never", ["rule again"]),
    (
        ["--fault", "gpu_xid.31", "--began", "3"],
        "drain",
        "enforce",
        "DRAIN_RESET",
        True,
        "12 h",
        ["rule again"],
    ),
    (["--fault", "ib_link.down"], "tell", "enforce", "DRAIN", False, "1 run, 2 of 3", []),
    (["--fault", "ib_link.down", "--seen", "2"], "drain", "enforce", "DRAIN", True, "tier", []),
    (
        ["--fault", "ib_link.down", "--hook", "healthcheck", "--seen", "4", "--lasting", "1199"],
        "tell",
        "enforce",
        "DRAIN",
        False,
        "1199 s, 1200 s",
        ["rule #2"],
    ),
    (
        [
            "--fault",
            "ib_link.down",
            "--hook",
            "healthcheck",
            "--seen",
            "4",
            "--lasting",
            "1200",
            "--at",
            "7:29",
        ],
        "tell",
        "enforce",
        "DRAIN",
        False,
        "until 07:30",
        ["rule #2"],
    ),
    (
        [
            "--fault",
            "ib_link.down",
            "--hook",
            "healthcheck",
            "--seen",
            "4",
            "--lasting",
            "1200",
            "--at",
            "7:30",
        ],
        "drain",
        "enforce",
        "DRAIN",
        True,
        "tier",
        ["rule #2"],
    ),
    (
        ["--fault", "ib_link.down", "--hook", "healthcheck", "--seen", "2", "--idle"],
        "drain",
        "enforce",
        "DRAIN",
        True,
        "",
        [],
    ),
    (["--fault", "fs_space.full"], "record", "", "WARN", False, "only recorded", ["rule #3"]),
    (["--fault", "gpu_xid.777"], "tell", "enforce", "WARN", False, "never", []),
    (
        ["--fault", "gpu_count.lost", "--hook", "prolog", "--others", "-w", "a4"],
        "drain",
        "observe",
        "DRAIN_REBOOT",
        False,
        "no GPU",
        [],
    ),
    (
        ["--fault", "fs_mounts.hung", "--hook", "prolog", "-w", "a4", "--device", "/data"],
        "tell",
        "enforce",
        "DRAIN",
        False,
        "1 run",
        [],
    ),
    (
        ["--fault", "fs_mounts.hung", "--hook", "prolog", "-w", "a4", "--device", "/data", "--seen", "2"],
        "refuse",
        "observe",
        "DRAIN",
        False,
        "/data",
        [],
    ),
]


@pytest.mark.parametrize(("options", "action", "mode", "tier", "acts", "why", "rules"), TESTED)
def test_one_case(
    capsys: pytest.CaptureFixture[str],
    root: Path,
    options: list[str],
    action: str,
    mode: str,
    tier: str,
    acts: bool,
    why: str,
    rules: list[str],
) -> None:
    where = [] if "-w" in options else ["-w", "a1"]
    found = ask(capsys, root, "test", *where, *options)
    assert (found["action"], found["mode"], found["tier"], found["will_act"]) == (action, mode, tier, acts)
    assert why in found["why"]
    assert found["rules"] == rules
    assert main(["policy", "test", *where, *options, "--root", str(root)]) == 0
    text = capsys.readouterr().out
    assert max(len(line) for line in text.splitlines()) <= 80
    assert ("if the budget has room" in text) is acts


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (["--fault", "gpu_xidd.79"], 20, "did you mean gpu_xid"),
        (["--fault", "gpu_count.lots"], 20, "did you mean gpu_count.lost"),
        (["--fault", "gpu_count"], 2, "several faults; name one, for example gpu_count."),
        (["--fault", "gpu_xid.79", "--hook", "taskprolog"], 2, "is not a hook"),
        (["--fault", "gpu_xid.79", "--at", "25:00"], 2, "no time of day"),
        (["--fault", "gpu_xid.79", "--seen", "0"], 2, "--seen"),
        ([], 2, "--fault"),
    ],
)
def test_slips_are_told(
    capsys: pytest.CaptureFixture[str], root: Path, options: list[str], code: int, told: str
) -> None:
    assert main(["policy", "test", "-w", "a1", *options, "--root", str(root)]) == code
    assert told in " ".join(capsys.readouterr().err.split())
