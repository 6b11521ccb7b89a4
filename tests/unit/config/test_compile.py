"""The bundle: what the hooks read back is what the site wrote."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.config.apply import encode
from slurm_guard.config.compile import compile_bundle
from slurm_guard.config.host import Host
from slurm_guard.config.model import Config
from slurm_guard.core import plan
from tests.unit.config.samples import CATALOGUE, FULL, WHOLE, read

if TYPE_CHECKING:
    from pathlib import Path

HOST = Host({"scontrol": "/opt/site/bin/scontrol"}, "/opt/site/slurm.conf", "omega", ["/opt/site/python"])
NOW = 1_900_000_000


def bundle_of(folder: Path, text: str) -> dict[str, Any]:
    reading = read(folder, text)
    assert reading.config is not None, [str(one) for one in reading.problems]
    return compile_bundle(reading.config, HOST, WHOLE, NOW)


def load_plan(folder: Path, bundle: dict[str, Any], node: str, now: float = NOW) -> plan.Plan:
    path = folder / "plan.json"
    path.write_bytes(encode(bundle))
    return plan.load(str(path), node, now)


def test_every_value_comes_back(tmp_path: Path) -> None:
    found = load_plan(tmp_path, bundle_of(tmp_path, FULL), "w02")
    assert (found.state, found.problem) == ("ok", "")
    assert (found.cluster, found.owners, found.grace_s) == ("delta", ["root", "slurmadm"], 120)
    assert found.programs == {"scontrol": "/opt/site/bin/scontrol"}
    assert (found.slurm_conf, found.nvml_library) == (
        "/opt/site/slurm.conf",
        "/opt/site/lib/libnvidia-ml.so.1",
    )
    assert found.python_path == ["/opt/site/python"]
    assert found.deadlines == {"prolog": 5, "epilog": 12.5, "healthcheck": 30}
    assert found.spool == {"files": 500, "bytes": 1048576, "age_s": 3600}
    assert found.budget == {
        "nodes": 7,
        "percent": 12.5,
        "per_hour": 9,
        "shared_nodes": 0,
        "nodes_per_job": 3,
        "nodes_per_user": 0,
    }
    assert found.returning == {
        "clean_runs": 5,
        "clean_s": 90,
        "watch_s": 0,
        "flaps": 4,
        "flap_window_s": 7200,
    }
    assert found.confirm == {"runs": 3, "of": 4}
    assert found.tiers == {"fan_speed.slow": "JOB", "link_log.79": "DRAIN_RMA", "fan_count": "NOTE"}
    assert found.all_nodes == ["lone7", "s1", "w01", "w02", "w03"]
    assert found.node_class == "wide"
    assert found.checks == {
        "fan_speed": {"lowest": 1200, "ratio": 0.5},
        "fan_count": {},
        "heat": {},
        "link_log": {},
    }
    assert found.references == {"fan_rpm": [2000, -0.1, 0.2, "rpm"]}
    assert found.expected == {
        "gpus": 4,
        "ib_ports": 2,
        "fans": 6,
        "mounts": [
            {"path": "/home", "type": "nfs4", "options": ["rw", "nosuid"]},
            {"path": "/deep/scratch", "options": [], "shared": True},
        ],
    }


@pytest.mark.parametrize(
    ("node", "node_class", "check", "action", "mode"),
    [
        ("w01", "wide", "fan_speed", "drain", "enforce"),
        ("w01", "wide", "fan_speed", "refuse", "observe"),
        ("w03", "wide", "fan_speed", "drain", "observe"),
        ("s1", "small", "fan_count", "drain", "enforce"),
        ("lone7", "", "fan_speed", "refuse", "enforce"),
        ("lone7", "", "fan_speed", "drain", "observe"),
        ("stranger", "", "fan_speed", "drain", "observe"),
    ],
)
def test_modes_by_node(
    tmp_path: Path, node: str, node_class: str, check: str, action: str, mode: str
) -> None:
    found = load_plan(tmp_path, bundle_of(tmp_path, FULL), node)
    assert found.node_class == node_class
    assert found.mode(check, action) == mode


def test_a_node_without_a_class_has_the_sites_checks(tmp_path: Path) -> None:
    found = load_plan(tmp_path, bundle_of(tmp_path, FULL), "stranger")
    assert found.checks == {"fan_speed": {"lowest": 1200}, "fan_count": {}, "heat": {}}


def test_the_order_of_rules_is_kept_and_the_last_counts(tmp_path: Path) -> None:
    rules = "".join(
        f"[[mode]]\naction = 'drain'\nmode = '{mode}'\n{nodes}"
        for mode, nodes in [("enforce", "nodes = 'a'\n"), ("off", ""), ("observe", "nodes = 'b'\n")]
    )
    bundle = bundle_of(tmp_path, rules)
    assert load_plan(tmp_path, bundle, "a").mode("fan_speed", "drain") == "off"
    assert load_plan(tmp_path, bundle, "b").mode("fan_speed", "drain") == "observe"


def test_nodes_that_are_alike_share_a_profile(tmp_path: Path) -> None:
    text = "[[class]]\nname = 'big'\nnodes = 'n[0001-2000]'\n"
    text += "[[mode]]\nmode = 'enforce'\nnodes = 'n[0001-0500]'\n"
    bundle = bundle_of(tmp_path, text)
    assert len(bundle["nodes"]) == 2000
    assert len(bundle["profiles"]) == 2
    assert len(encode(bundle)) < 200_000


def test_the_same_configuration_gives_the_same_hash(tmp_path: Path) -> None:
    reading = read(tmp_path, FULL)
    assert reading.config is not None
    hashes = {compile_bundle(reading.config, HOST, WHOLE, at)["hash"] for at in (1, 2)}
    assert len(hashes) == 1
    assert bundle_of(tmp_path, FULL.replace("nodes = 7", "nodes = 8"))["hash"] not in hashes


def test_defaults_are_the_plans_own() -> None:
    bundle = compile_bundle(Config(), Host({}, "", "", []), CATALOGUE, NOW)
    assert {name: bundle[name] for name in plan.DEFAULTS} == plan.DEFAULTS
    assert bundle["default_profile"]["checks"] == {name: {} for name in CATALOGUE.names}


def test_slurms_cluster_name_is_taken_where_none_is_set() -> None:
    assert compile_bundle(Config(), HOST, WHOLE, NOW)["cluster"] == "omega"


def test_an_old_plan_is_stale(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, "stale_after_s = 100\n")
    assert load_plan(tmp_path, bundle, "x", NOW + 99).state == "ok"
    assert load_plan(tmp_path, bundle, "x", NOW + 101).state == "stale"


FRACTIONS = st.floats(min_value=0, max_value=0.999)


@given(
    value=st.floats(allow_nan=False, allow_infinity=False),
    lower=FRACTIONS,
    upper=st.none() | FRACTIONS,
    budget=st.integers(min_value=0, max_value=10**6),
    lowest=st.integers(min_value=-(2**62), max_value=2**62),
)
def test_numbers_survive_the_round_trip(
    tmp_path: Path, value: float, lower: float, upper: float | None, budget: int, lowest: int
) -> None:
    bound = "" if upper is None else f", upper = {upper!r}"
    bundle = bundle_of(
        tmp_path,
        f"[budget]\nnodes = {budget}\n[checks.fan_speed]\nlowest = {lowest}\n"
        f"[[class]]\nname = 'a'\nnodes = 'a1'\n"
        f"[class.references]\nfan_rpm = {{ value = {_number(value)}, lower = {-lower!r}{bound}, "
        "unit = 'rpm' }\n",
    )
    found = load_plan(tmp_path, bundle, "a1")
    assert found.state == "ok"
    assert found.references["fan_rpm"] == [value, -lower, upper, "rpm"]
    assert found.budget["nodes"] == budget
    assert found.checks is not None
    assert found.checks["fan_speed"] == {"lowest": lowest}


def _number(value: float) -> str:
    text = repr(value)
    return text if "." in text or "e" not in text else text.replace("e", ".0e")


def test_the_bundle_is_json_without_surprises(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, FULL)
    on_disk = json.loads(encode(bundle))
    assert len(on_disk.pop("seal")) == 8
    assert on_disk == bundle
    assert bundle["hash"] == plan.digest(bundle)
