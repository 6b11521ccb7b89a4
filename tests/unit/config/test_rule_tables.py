"""`[[rule]]`: mistakes with their place, and what each node's plan gets of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_guard.config import load
from slurm_guard.config.apply import apply
from slurm_guard.config.compile import compile_bundle
from slurm_guard.config.host import Host
from slurm_guard.config.partitions import partitions_of
from slurm_guard.config.slurm_conf import read as read_slurm_conf
from slurm_guard.core.errors import ConfigError
from slurm_guard.core.paths import Places
from slurm_guard.core.plan import Plan
from tests.unit.config.samples import CLASS, WHOLE, assert_told, read

RULE = "[[rule]]\nfault = 'heat'\n"

# name: (text, line, key, part of what was found, part of what was expected)
WRONG = {
    "no fault": ("[[rule]]\ntier = 'NOTE'\n", 1, "rule[#1].fault", "nothing", "this key"),
    "says nothing": (f"{RULE}hooks = ['prolog']\n", 1, "rule[heat]", "a table", "an effect: tier, action"),
    "unknown key": (f"{RULE}teir = 'NOTE'\n", 3, "rule[heat].teir", "unknown key", '"tier"'),
    "unknown check": (
        "[[rule]]\nfault = 'heatt'\ntier = 'NOTE'\n",
        2,
        "rule[heatt].fault",
        'check "heatt"',
        '"heat"',
    ),
    "unknown fault": (
        "[[rule]]\nfault = 'heat.hotter'\ntier = 'NOTE'\n",
        2,
        "rule[heat.hotter].fault",
        '"heat.hotter"',
        '"heat.hot"',
    ),
    "matches no check": (
        "[[rule]]\nfault = 'hoat*'\ntier = 'NOTE'\n",
        2,
        "rule[hoat*].fault",
        "matches no check",
        '"heat"',
    ),
    "matches no fault": (
        "[[rule]]\nfault = 'heat.x*'\ntier = 'NOTE'\n",
        2,
        "rule[heat.x*].fault",
        "matches no fault",
        "heat.hot",
    ),
    "a star inside": (
        "[[rule]]\nfault = 'h*t*'\ntier = 'NOTE'\n",
        2,
        "rule[h*t*].fault",
        '"h*t*"',
        "at the end",
    ),
    "tier": (f"{RULE}tier = 'DRIAN'\n", 3, "rule[heat].tier", '"DRIAN"', '"DRAIN"'),
    "hook": (
        f"{RULE}tier = 'NOTE'\nhooks = ['prologue']\n",
        4,
        "rule[heat].hooks[#1]",
        "prologue",
        '"prolog"',
    ),
    "no hook": (f"{RULE}tier = 'NOTE'\nhooks = []\n", 4, "rule[heat].hooks", "empty list", "at least 1"),
    "idle prologs": (
        f"{RULE}tier = 'NOTE'\nnode = 'idle'\nhooks = ['prolog']\n",
        1,
        "rule[heat]",
        "a table",
        '"healthcheck" among',
    ),
    "drain with a mild tier": (
        f"{RULE}tier = 'WARN'\naction = 'drain'\n",
        1,
        "rule[heat]",
        "a table",
        "with tier WARN nothing",
    ),
    "more runs than there are": (f"{RULE}runs = 4\nof = 3\n", 1, "rule[heat]", "a table", "at most `of` (3)"),
    "of without runs": (f"{RULE}of = 3\n", 1, "rule[heat]", "a table", "an effect"),
    "runs": (f"{RULE}runs = 0\n", 3, "rule[heat].runs", "0", "at least 1"),
    "duration": (f"{RULE}minimum_s = -5\n", 3, "rule[heat].minimum_s", "-5", "at least 0"),
    "once is no repeat": (
        f"{RULE}escalate = {{ after = 1, tier = 'DRAIN' }}\n",
        3,
        "rule[heat].escalate.after",
        "1",
        "at least 2",
    ),
    "escalates to nothing": (
        f"{RULE}escalate = {{ after = 2, tier = 'WARN' }}\n",
        3,
        "rule[heat].escalate.tier",
        '"WARN"',
        "DRAIN",
    ),
    "unknown key of escalate": (
        f"{RULE}escalate = {{ after = 2, tier = 'DRAIN', within = 60 }}\n",
        3,
        "rule[heat].escalate.within",
        "unknown key",
        '"within_s"',
    ),
    "window": (f"{RULE}quiet = ['22-6']\n", 3, "rule[heat].quiet[#1]", '"22-6"', "22:00-06:00"),
    "three times": (f"{RULE}quiet = ['1:00-2:00-3:00']\n", 3, "rule[heat].quiet[#1]", "1:00", "22:00-06:00"),
    "hour": (f"{RULE}quiet = ['22:00-25:00']\n", 3, "rule[heat].quiet[#1]", "25:00", "22:00-06:00"),
    "class": (f"{CLASS}{RULE}tier = 'NOTE'\nclasses = ['kk']\n", 7, "rule[heat].classes[#1]", '"kk"', '"k"'),
    "nodes": (f"{RULE}tier = 'NOTE'\nnodes = 'k[1-'\n", 4, "rule[heat].nodes", "k[1-", "a hostlist"),
}


@pytest.mark.parametrize("name", WRONG)
def test_each_mistake_is_told_with_its_place(tmp_path: Path, name: str) -> None:
    assert_told(tmp_path, *WRONG[name])


def plan_of(folder: Path, text: str, node: str, partitions: dict[str, list[str]] | None = None) -> Plan:
    reading = read(folder, text)
    assert reading.config is not None, [str(one) for one in reading.problems]
    host = Host({}, "", "omega", [])
    host.partitions = partitions or {}
    return Plan(compile_bundle(reading.config, host, WHOLE, 1), node)


def test_every_effect_comes_back(tmp_path: Path) -> None:
    text = (
        "[[rule]]\nname = 'nights'\nfault = 'link_log.13'\nhooks = ['epilog', 'healthcheck']\n"
        "node = 'allocated'\ntier = 'DRAIN'\naction = 'drain'\nruns = 2\nof = 4\nminimum_s = 90\n"
        "quiet = ['22:00 - 06:00']\n"
        "escalate = { after = 3, within_s = 7200, tier = 'DRAIN_RMA' }\n"
    )
    assert plan_of(tmp_path, text, "anything").rules == [
        {
            "fault": "link_log.13",
            "hooks": ["epilog", "healthcheck"],
            "node": "allocated",
            "tier": "DRAIN",
            "action": "drain",
            "runs": 2,
            "of": 4,
            "minimum_s": 90.0,
            "quiet": ["22:00-06:00"],
            "escalate": {"after": 3, "within_s": 7200.0, "tier": "DRAIN_RMA"},
            "source": "rule nights",
        }
    ]


WHERE = [
    ("", "k1", True),
    ("", "somewhere", True),
    ("nodes = 'k[2-3]'", "k2", True),
    ("nodes = 'k[2-3]'", "k1", False),
    ("nodes = 'k[2-3]'", "somewhere", False),
    ("classes = ['k']", "k4", True),
    ("classes = ['k']", "m1", False),
    ("partitions = ['debug']", "m1", True),
    ("partitions = ['debug', 'train']", "k2", True),
    ("partitions = ['debug']", "k1", False),
    ("partitions = ['train']\nclasses = ['k']\nnodes = 'k[1-2],m2'", "k2", True),
    ("partitions = ['train']\nclasses = ['k']\nnodes = 'k[1-2],m2'", "k3", False),
    ("partitions = ['debug']\nclasses = ['k']", "m1", False),
]


@pytest.mark.parametrize(("where", "node", "concerned"), WHERE)
def test_whose_plan_a_rule_is_in(tmp_path: Path, where: str, node: str, concerned: bool) -> None:
    partitions = {"train": ["k1", "k2", "k3", "m2"], "debug": ["m1", "m2"]}
    found = plan_of(tmp_path, f"{CLASS}{RULE}tier = 'NOTE'\n{where}\n", node, partitions)
    assert [one["tier"] for one in found.rules] == (["NOTE"] if concerned else [])


def test_a_node_in_no_class_has_its_own_rules_and_modes(tmp_path: Path) -> None:
    rules = f"{RULE}tier = 'NOTE'\nnodes = 'lone'\n{RULE}tier = 'WARN'\n"
    text = f"{rules}[[mode]]\nmode = 'enforce'\nnodes = 'lone'\n"
    lone, other = plan_of(tmp_path, text, "lone"), plan_of(tmp_path, text, "other")
    assert [one["tier"] for one in lone.rules] == ["NOTE", "WARN"]
    assert [one["source"] for one in lone.rules] == ["rule #1", "rule #2"]
    assert (lone.mode("heat", "drain"), other.mode("heat", "drain")) == ("enforce", "observe")
    assert [one["tier"] for one in other.rules] == ["WARN"]


def test_files_add_their_rules_in_order(tmp_path: Path) -> None:
    read(tmp_path, f"{RULE}tier = 'NOTE'\n")
    folder = Path(Places(str(tmp_path)).etc) / "conf.d"
    folder.mkdir(exist_ok=True)
    (folder / "b.toml").write_text(f"{RULE}tier = 'WARN'\n")
    reading = load.read(Places(str(tmp_path)), WHOLE)
    assert reading.config is not None
    assert [one.tier for one in reading.config.rules] == ["NOTE", "WARN"]


CONF = """
ClusterName=omega
NodeName=DEFAULT CPUs=4
NodeName=k[1-4] Gres=gpu:8
nodename=m1,m2
NodeSet=fat Nodes=k[1-2]
PartitionName=DEFAULT Nodes=m[1-2]
PartitionName=usual
PartitionName=all Nodes=ALL Default=YES
PartitionName=fat Nodes=fat,m2
PartitionName=empty Nodes=""
PartitionName=odd Nodes=k[1-
PartitionName=usual Nodes=k4
"""

PARTITIONS: list[tuple[str, list[str]]] = [
    ("usual", ["m1", "m2", "k4"]),
    ("all", ["k1", "k2", "k3", "k4", "m1", "m2"]),
    ("fat", ["k1", "k2", "m2"]),
    ("empty", []),
    ("odd", []),
]


def test_partitions_are_slurm_confs(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(CONF)
    assert list(partitions_of(read_slurm_conf(str(tmp_path / "slurm.conf"))).items()) == PARTITIONS


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("['fatt']", ['"fatt", which slurm.conf does not have', '"fat"']),
        ("['all', 'empty']", ['"empty", which has no nodes']),
    ],
)
def test_a_partition_that_names_no_node_is_an_error_with_its_place(
    tmp_path: Path, named: str, told: list[str]
) -> None:
    places = Places(str(tmp_path))
    conf = tmp_path / "etc/slurm/slurm.conf"
    conf.parent.mkdir(parents=True)
    conf.write_text(CONF)
    Path(places.etc).mkdir()
    Path(places.config).write_text(f"[[rule]]\nfault = 'ib_link'\ntier = 'NOTE'\npartitions = {named}\n")
    with pytest.raises(ConfigError) as error:
        apply(places)
    text = " ".join(str(error.value).split())
    assert "slurm-guard.toml:4" in text
    assert all(part in text for part in told)
    assert not Path(places.plan).exists()


def test_without_slurm_conf_no_partition_is_known(tmp_path: Path) -> None:
    places = Places(str(tmp_path))
    Path(places.etc).mkdir(parents=True)
    Path(places.config).write_text("[[rule]]\nfault = 'ib_link'\ntier = 'NOTE'\npartitions = ['all']\n")
    with pytest.raises(ConfigError, match=r"slurm\.conf does not have"):
        apply(places)
