"""Mistakes about checks, their faults, parameters and modes: each told once, with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.config.samples import assert_told

if TYPE_CHECKING:
    from pathlib import Path

# name: (text, line, key, part of what was found, part of what was expected)
WRONG = {
    "unknown tier": ("[policy]\nfan_count = 'DRAINS'\n", 2, "policy.fan_count", '"DRAINS"', '"DRAIN"'),
    "tier in lower case": ("[policy]\nfan_count = 'note'\n", 2, "policy.fan_count", '"note"', "NOTE"),
    "policy of an unknown check": (
        "[policy]\nfan_cuont = 'NOTE'\n",
        2,
        "policy.fan_cuont",
        "unknown check",
        '"fan_count"',
    ),
    "unknown fault": (
        '[policy]\n"fan_speed.slwo" = "NOTE"\n',
        2,
        "policy.fan_speed.slwo",
        "unknown fault",
        '"fan_speed.slow"',
    ),
    "unknown fault as a table": (
        '[policy]\nfan_speed.slwo = "NOTE"\n',
        2,
        "policy.fan_speed.slwo",
        "unknown fault",
        '"fan_speed.slow"',
    ),
    "fault number of a check without": (
        "[policy]\nfan_speed.9 = 'NOTE'\n",
        2,
        "policy.fan_speed.9",
        "unknown fault",
        "",
    ),
    "unknown check": ("[checks.fanspeed]\n", 1, "checks.fanspeed", "unknown check", '"fan_speed"'),
    "unknown parameter": (
        "[checks.fan_speed]\nlow = 1\n",
        2,
        "checks.fan_speed.low",
        'unknown parameter "low"',
        '"lowest"',
    ),
    "parameter's type": (
        "[checks.fan_speed]\nlowest = 'x'\n",
        2,
        "checks.fan_speed.lowest",
        '"x"',
        "a number",
    ),
    "parameter's truth": (
        "[checks.fan_speed]\nlowest = true\n",
        2,
        "checks.fan_speed.lowest",
        "true",
        "a number",
    ),
    "parameter is not true": (
        "[checks.fan_speed]\nquiet = 1\n",
        2,
        "checks.fan_speed.quiet",
        "1",
        "true or false",
    ),
    "parameter nan": ("[checks.fan_speed]\nratio = nan\n", 2, "checks.fan_speed.ratio", "nan", "finite"),
    "parameter's items": (
        "[checks.fan_count]\nignore = [1]\n",
        2,
        "checks.fan_count.ignore",
        "a list of 1",
        '"fan0"',
    ),
    "enabled": (
        "[checks.fan_count]\nenabled = 'no'\n",
        2,
        "checks.fan_count.enabled",
        '"no"',
        "true or false",
    ),
    "check is no table": ("checks.fan_count = 1\n", 1, "checks.fan_count", "1", "a table"),
    "number out of range": (
        "[policy]\nlink_log.9999 = 'NOTE'\n",
        2,
        "policy.link_log.9999",
        'unknown fault "link_log.9999"',
        "a number from 1 to 999",
    ),
    "number with zeros": (
        "[policy]\nlink_log.079 = 'NOTE'\n",
        2,
        "policy.link_log.079",
        "unknown",
        "1 to 999",
    ),
    "name near a listed one": (
        "[policy]\nlink_log.lsot = 'NOTE'\n",
        2,
        "policy.link_log.lsot",
        "unknown fault",
        '"link_log.lost" (did you mean that?)',
    ),
    "second below the first": ("[checks.heat]\nwarn_c = 70\n", 2, "checks.heat.warn_c", "70", "at most 60"),
    "both given, the wrong way round": (
        "[checks.heat]\nwarn_c = 40\nfail_c = 39.5\n",
        3,
        "checks.heat.fail_c",
        "39.5",
        "at least 40, the value of `warn_c`",
    ),
    "no such mode": ("[[mode]]\nmode = 'enforced'\n", 2, "mode[#1].mode", '"enforced"', '"enforce"'),
    "no such action": ("[[mode]]\nmode = 'off'\naction = 'kill'\n", 3, "mode[#1].action", '"kill"', "drain"),
    "mode of no check": (
        "[[mode]]\nmode = 'off'\ncheck = 'fam_*'\n",
        3,
        "mode[fam_*].check",
        "matches no check",
        "",
    ),
    "star in the middle": (
        "[[mode]]\nmode = 'off'\ncheck = '*_x'\n",
        3,
        "mode[*_x].check",
        '"*_x"',
        "start of names",
    ),
    "mode's nodes": ("[[mode]]\nmode = 'off'\nnodes = 'a[3-'\n", 3, "mode[#1].nodes", '"a[3-"', "a hostlist"),
}


@pytest.mark.parametrize("name", WRONG)
def test_each_mistake_is_told_with_its_place(tmp_path: Path, name: str) -> None:
    assert_told(tmp_path, *WRONG[name])
