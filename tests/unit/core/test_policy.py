"""From findings to decisions: the table of the policy."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_guard.core.outcome import Finding
from slurm_guard.core.plan import Plan
from slurm_guard.core.policy import History, decide

ENFORCE = [["*", "*", "enforce"]]


def finding(fault: str, status: str = "fail", tier: str = "DRAIN", **fields: Any) -> Finding:
    check, _, code = fault.partition(".")
    found = Finding(status, "", code=code, **{"scope": "device", "device": "gpu3", **fields})
    found.check, found.tier = check, tier
    return found


def plan(modes: list[list[str]] | None = None, **bundle: Any) -> Plan:
    profile = {"modes": ENFORCE if modes is None else modes}
    return Plan({"profiles": [profile], "nodes": {"n1": 0}, **bundle}, "n1")


SURE = {"sure": ["gpu_count.lost"], "refuse": ["gpu_count.lost", "fs_mounts.hung", "gpu_remap.failure"]}
LOST = finding("gpu_count.lost")
HUNG = finding("fs_mounts.hung", "timeout", scope="node", device="/local")

#: finding, hook, devices of the job, history, the action wanted
TABLE = [
    ("a lost GPU of this job refuses", LOST, "prolog", ["gpu3"], {}, "refuse"),
    ("another's lost GPU drains", LOST, "prolog", ["gpu1"], {}, "drain"),
    ("a CPU job is never refused for a GPU", LOST, "prolog", [], {}, "drain"),
    (
        "nor for a driver that hangs",
        finding("nvml.hung", "timeout", scope="node", device="nvml"),
        "prolog",
        [],
        {"seen": {("nvml.hung", "nvml"): [1]}, "hung_before": ["nvml"], "refuse": ["nvml.hung"]},
        "drain",
    ),
    ("the epilog drains", LOST, "epilog", ["gpu3"], {}, "drain"),
    ("the healthcheck drains", LOST, "healthcheck", [], {}, "drain"),
    ("one bad run of a fault that may be a fluke", finding("ib_link.down"), "epilog", [], {}, "tell"),
    (
        "two of three",
        finding("ib_link.down"),
        "epilog",
        [],
        {"seen": {("ib_link.down", "gpu3"): [1]}},
        "drain",
    ),
    ("an event cannot be a fluke", finding("gpu_xid.95", event=True), "epilog", [], {}, "drain"),
    (
        "a first hang never refuses",
        HUNG,
        "prolog",
        [],
        {"seen": {("fs_mounts.hung", "/local"): [1]}},
        "drain",
    ),
    ("a first hang seen once does nothing", HUNG, "prolog", [], {}, "tell"),
    (
        "a hang of the run before refuses",
        HUNG,
        "prolog",
        [],
        {"seen": {("fs_mounts.hung", "/local"): [1]}, "hung_before": ["/local"]},
        "refuse",
    ),
    ("the user's fault is told", finding("gpu_xid.31", tier="JOB", event=True), "epilog", [], {}, "tell"),
    ("a warning makes no decision", finding("gpu_temperature.high", "warn"), "epilog", [], {}, None),
    ("unknown makes no decision", finding("gpu_count", "unknown"), "prolog", ["gpu3"], {}, None),
]


@pytest.mark.parametrize(
    ("case", "found", "hook", "given", "history", "action"), TABLE, ids=[t[0] for t in TABLE]
)
def test_table(
    case: str, found: Finding, hook: str, given: list[str], history: dict[str, Any], action: str | None
) -> None:
    made = decide([found], plan(), hook, given, History(**{**SURE, **history}))
    assert [one.action for one in made] == ([action] if action else [])


def test_observe_is_the_default() -> None:
    made = decide([LOST], plan(modes=[]), "epilog", [], History(**SURE))
    assert [(one.action, one.mode) for one in made] == [("drain", "observe")]


def test_drain_enforced_and_refuse_not_drains_and_lets_the_job_run() -> None:
    made = decide([LOST], plan(modes=[["*", "drain", "enforce"]]), "prolog", ["gpu3"], History(**SURE))
    assert [(one.action, one.mode) for one in made] == [("drain", "enforce")]


@pytest.mark.parametrize(
    ("modes", "hook", "action", "mode"),
    [
        ([["*", "*", "off"]], "epilog", "tell", "off"),
        ([["*", "*", "off"]], "prolog", "tell", "off"),
        ([["*", "refuse", "off"]], "prolog", "drain", "observe"),
        ([["*", "refuse", "off"], ["*", "drain", "enforce"]], "prolog", "drain", "enforce"),
        ([["*", "drain", "off"]], "prolog", "refuse", "observe"),
        ([["*", "drain", "off"], ["*", "refuse", "enforce"]], "prolog", "refuse", "enforce"),
        ([["gpu_*", "drain", "off"]], "healthcheck", "tell", "off"),
        ([["gpu_ecc", "*", "off"]], "epilog", "drain", "observe"),
    ],
)
def test_off_is_neither_done_nor_said_to_be_called_for(
    modes: list[list[str]], hook: str, action: str, mode: str
) -> None:
    (made,) = decide([LOST], plan(modes=modes), hook, ["gpu3"], History(**SURE))
    assert (made.action, made.mode) == (action, mode)
    assert ("is off" in made.why) == (action == "tell")


def test_what_is_off_comes_after_what_is_observed() -> None:
    found = [finding("gpu_remap.failure", tier="DRAIN_RMA"), LOST]
    history = History(**{**SURE, "sure": ["gpu_count.lost", "gpu_remap.failure"]})
    made = decide(
        found, plan(modes=[["gpu_remap", "*", "off"], ["gpu_count", "*", "enforce"]]), "epilog", [], history
    )
    assert [(one.fault, one.action) for one in made] == [
        ("gpu_count.lost", "drain"),
        ("gpu_remap.failure", "tell"),
    ]


def test_the_gravest_comes_first() -> None:
    found = [
        finding("gpu_ecc.uncorrected", event=True),
        finding("gpu_remap.failure", tier="DRAIN_RMA", event=True),
    ]
    made = decide(found, plan(), "epilog", [], History(**SURE))
    assert [one.fault for one in made] == ["gpu_remap.failure", "gpu_ecc.uncorrected"]


def test_an_enforced_drain_comes_before_a_graver_observed_one() -> None:
    modes = [["gpu_ecc", "drain", "enforce"]]
    found = [
        finding("gpu_ecc.uncorrected", event=True),
        finding("gpu_remap.failure", tier="DRAIN_RMA", event=True),
    ]
    made = decide(found, plan(modes), "epilog", [], History(**SURE))
    assert made[0].fault == "gpu_ecc.uncorrected"


def test_the_site_s_tier_beats_the_check_s() -> None:
    made = decide([LOST], plan(tiers={"gpu_count.lost": "WARN"}), "epilog", [], History(**SURE))
    assert [one.action for one in made] == ["tell"]


def test_a_tier_that_nobody_knows_is_a_warning() -> None:
    found = [finding("site_check", tier="DRAIN_SOON"), finding("gpu_count.lost")]
    made = decide(found, plan(tiers={"gpu_count": "RESET"}), "epilog", ["gpu3"], History(**SURE))
    assert {(one.fault, one.action, one.tier) for one in made} == {
        ("site_check", "tell", "WARN"),
        ("gpu_count.lost", "tell", "WARN"),
    }
