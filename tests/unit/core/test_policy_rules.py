"""The site's rules in the policy: what they make of a fault, and of a plan."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_guard.core import plan as plans
from slurm_guard.core.outcome import Finding
from slurm_guard.core.plan import Plan
from slurm_guard.core.policy import History, decide

from .test_policy import ENFORCE, LOST, SURE, finding, plan

BURST = finding("gpu_xid.31", tier="JOB", event=True)
LINK = finding("ib_link.down", device="mlx5_2/1", scope="device")
LINK_KEY = ("ib_link.down", "mlx5_2/1")
AT_NIGHT = {"minute": 3 * 60}
QUIET = [{"fault": "*", "quiet": ["22:00-06:30"]}]
TWICE = [{"fault": "gpu_xid.31", "escalate": {"after": 2, "within_s": 86400, "tier": "DRAIN_RESET"}}]

#: name, finding, hook, rules, history, (action, tier) wanted and a part of why
RULES: list[tuple[str, Finding, str, list[dict[str, Any]], dict[str, Any], Any, str]] = [
    (
        "a rule's tier",
        LOST,
        "epilog",
        [{"fault": "gpu_count", "tier": "WARN"}],
        {},
        ("tell", "WARN"),
        "never a drain",
    ),
    (
        "a rule of another hook",
        LOST,
        "epilog",
        [{"fault": "*", "hooks": ["prolog"], "tier": "WARN"}],
        {},
        ("drain", "DRAIN"),
        "",
    ),
    (
        "graver when idle",
        LINK,
        "healthcheck",
        [{"fault": "ib_link", "node": "idle", "tier": "DRAIN_RESET", "runs": 1}],
        {"idle": True},
        ("drain", "DRAIN_RESET"),
        "",
    ),
    (
        "but not while a job runs",
        LINK,
        "healthcheck",
        [{"fault": "ib_link", "node": "idle", "runs": 1}],
        {"idle": False},
        ("tell", "DRAIN"),
        "1 run, 2 of 3",
    ),
    (
        "only told",
        LOST,
        "epilog",
        [{"fault": "gpu_count.lost", "action": "tell"}],
        {},
        ("tell", "DRAIN"),
        "only be told",
    ),
    ("recorded, nothing more", LOST, "epilog", [{"fault": "gpu_count.lost", "action": "none"}], {}, None, ""),
    (
        "drains and never refuses",
        LOST,
        "prolog",
        [{"fault": "gpu_count.lost", "action": "drain"}],
        {},
        ("drain", "DRAIN"),
        "refuse no job",
    ),
    (
        "refuses though not on the list",
        finding("gpu_pcie.width"),
        "prolog",
        [{"fault": "gpu_pcie", "action": "refuse", "runs": 1}],
        {},
        ("refuse", "DRAIN"),
        "gpu3",
    ),
    (
        "a rule's list does not refuse for another's GPU",
        finding("gpu_pcie.width", device="gpu5"),
        "prolog",
        [{"fault": "gpu_pcie", "action": "refuse", "runs": 1}],
        {},
        ("drain", "DRAIN"),
        "not given",
    ),
    (
        "three of five, two seen",
        LINK,
        "healthcheck",
        [{"fault": "*", "runs": 3, "of": 5}],
        {"seen": {LINK_KEY: [1, 0, 0]}},
        ("tell", "DRAIN"),
        "2 runs, 3 of 5",
    ),
    (
        "three of five",
        LINK,
        "healthcheck",
        [{"fault": "*", "runs": 3, "of": 5}],
        {"seen": {LINK_KEY: [1, 1, 0, 0]}},
        ("drain", "DRAIN"),
        "",
    ),
    (
        "runs that are too old",
        LINK,
        "healthcheck",
        [{"fault": "*", "runs": 2, "of": 2}],
        {"seen": {LINK_KEY: [1, 1, 0]}},
        ("tell", "DRAIN"),
        "2 of 2",
    ),
    (
        "no fluke, and still a rule asks for more",
        LOST,
        "epilog",
        [{"fault": "gpu_count", "runs": 2, "of": 2}],
        {},
        ("tell", "DRAIN"),
        "2 of 2",
    ),
    (
        "an event comes once, whatever a rule asks",
        finding("gpu_xid.95", event=True),
        "epilog",
        [{"fault": "*", "runs": 5, "of": 5}],
        {},
        ("drain", "DRAIN"),
        "",
    ),
    (
        "not long enough",
        LOST,
        "epilog",
        [{"fault": "*", "minimum_s": 900}],
        {"lasting": {("gpu_count.lost", "gpu3"): 840.0}},
        ("tell", "DRAIN"),
        "840 s, 900 s",
    ),
    (
        "long enough",
        LOST,
        "epilog",
        [{"fault": "*", "minimum_s": 900}],
        {"lasting": {("gpu_count.lost", "gpu3"): 900.0}},
        ("drain", "DRAIN"),
        "",
    ),
    (
        "once is the user's",
        BURST,
        "epilog",
        TWICE,
        {"began": {("gpu_xid.31", "gpu3"): [0.0]}},
        ("tell", "JOB"),
        "never",
    ),
    (
        "twice in a day is the node's",
        BURST,
        "epilog",
        TWICE,
        {"began": {("gpu_xid.31", "gpu3"): [80000.0, 0.0]}},
        ("drain", "DRAIN_RESET"),
        "2 times within 24 h",
    ),
    (
        "twice in two days is not",
        BURST,
        "epilog",
        TWICE,
        {"began": {("gpu_xid.31", "gpu3"): [90000.0, 0.0]}},
        ("tell", "JOB"),
        "never",
    ),
    (
        "on two GPUs is not twice",
        BURST,
        "epilog",
        TWICE,
        {"began": {("gpu_xid.31", "gpu1"): [50.0], ("gpu_xid.31", "gpu3"): [0.0]}},
        ("tell", "JOB"),
        "never",
    ),
    (
        "at night it waits",
        LOST,
        "epilog",
        QUIET,
        AT_NIGHT,
        ("tell", "DRAIN"),
        "until 06:30",
    ),
    (
        "but not this one",
        LOST,
        "epilog",
        [*QUIET, {"fault": "gpu_count", "quiet": []}],
        AT_NIGHT,
        ("drain", "DRAIN"),
        "",
    ),
    (
        "by day it does not",
        LOST,
        "epilog",
        QUIET,
        {"minute": 600},
        ("drain", "DRAIN"),
        "",
    ),
    (
        "a refusal waits too",
        LOST,
        "prolog",
        QUIET,
        AT_NIGHT,
        ("tell", "DRAIN"),
        "until 06:30",
    ),
    (
        "a tier nobody knows",
        LOST,
        "epilog",
        [{"fault": "*", "tier": "BURN"}],
        {},
        ("tell", "WARN"),
        "never a drain",
    ),
]


@pytest.mark.parametrize(
    ("case", "found", "hook", "rules", "history", "wanted", "why"), RULES, ids=[r[0] for r in RULES]
)
def test_rules(
    case: str,
    found: Finding,
    hook: str,
    rules: list[dict[str, Any]],
    history: dict[str, Any],
    wanted: tuple[str, str] | None,
    why: str,
) -> None:
    with_rules = Plan({"profiles": [{"modes": ENFORCE, "rules": rules}], "nodes": {"n1": 0}}, "n1")
    made = decide([found], with_rules, hook, ["gpu3"], History(**{**SURE, **history}))
    assert [(one.action, one.tier) for one in made] == ([wanted] if wanted else [])
    assert all(why in one.why for one in made)


def test_a_decision_names_the_rules_that_had_a_say() -> None:
    rules = [
        {"fault": "*", "tier": "WARN", "source": "slurm-guard.toml:7"},
        {"fault": "ib_*", "tier": "NOTE", "source": "conf.d/ib.toml:2"},
        {"fault": "gpu_count", "tier": "DRAIN", "source": "conf.d/gpu.toml:1"},
    ]
    ruled = Plan({"profiles": [{"modes": ENFORCE, "rules": rules}], "nodes": {"n1": 0}}, "n1")
    (made,) = decide([LOST], ruled, "epilog", [], History(**SURE))
    assert made.as_dict()["rules"] == ["slurm-guard.toml:7", "conf.d/gpu.toml:1"]


@pytest.mark.parametrize(
    ("hook", "given", "modes", "action", "mode", "says"),
    [
        ("epilog", [], [["*", "*", "enforce"]], "drain", "observe", True),
        ("prolog", ["gpu3"], [["*", "*", "enforce"]], "refuse", "observe", True),
        ("prolog", ["gpu3"], [["*", "drain", "enforce"]], "refuse", "observe", True),
        ("epilog", [], [], "drain", "observe", False),
        ("epilog", [], [["*", "drain", "off"]], "tell", "off", False),
    ],
)
def test_a_check_that_is_new_is_observed_and_the_decision_says_until_when(
    hook: str, given: list[str], modes: list[list[str]], action: str, mode: str, says: bool
) -> None:
    bundle = {"check_since": {"gpu_count": 1000}, "new_check_s": 600, "profiles": [{"modes": modes}]}
    history = History(sure=["gpu_count.lost"], refuse=["gpu_count.lost"])
    new = Plan({**bundle, "nodes": {"n1": 0}}, "n1", now=1599)
    (made,) = decide([finding("gpu_count.lost")], new, hook, given, history)
    assert (made.action, made.mode) == (action, mode)
    assert ("gpu_count is new to the plan: only observed until 1970-01-01 00:26 UTC" in made.why) == says
    known = Plan({**bundle, "nodes": {"n1": 0}}, "n1", now=1600)
    assert "new to the plan" not in decide([finding("gpu_count.lost")], known, hook, given, history)[0].why


def test_the_longest_window_of_runs_is_kept() -> None:
    rules = [{"fault": "*", "runs": 3, "of": 9}, {"fault": "*", "runs": 1}]
    ruled = Plan({"profiles": [{"rules": rules}], "nodes": {"n1": 0}}, "n1")
    assert (ruled.longest_of, plan().longest_of) == (9, 3)


def test_a_plan_with_a_rule_that_this_version_cannot_apply_is_foreign(tmp_path: Any) -> None:
    bundle: dict[str, Any] = {
        "schema": "1.0",
        "hash": "",
        "built_at": 0,
        "profiles": [{"rules": [{"fault": 3, "quiet": [9]}]}],
    }
    bundle["nodes"] = {"n1": 0}
    bundle["hash"] = plans.digest(bundle)
    (tmp_path / "plan.json").write_bytes(plans.encode(bundle))
    assert plans.load(str(tmp_path / "plan.json"), "n1", 0).state == "foreign"
