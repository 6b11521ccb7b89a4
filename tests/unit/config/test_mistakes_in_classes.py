"""Mistakes in node classes, their mounts and references: each told once, with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.config.samples import CLASS, assert_told

if TYPE_CHECKING:
    from pathlib import Path

# name: (text, line, key, part of what was found, part of what was expected)
WRONG = {
    "class without a name": ("[[class]]\nnodes = 'a'\n", 1, "class[#1].name", "nothing", "this key"),
    "class without nodes": ("[[class]]\nname = 'a'\n", 1, "class[a].nodes", "nothing", "this key"),
    "hostlist": ("[[class]]\nname = 'a'\nnodes = 'a[1-'\n", 3, "class[a].nodes", '"a[1-"', "a hostlist"),
    "empty node set": (
        "[[class]]\nname = 'a'\nnodes = ' '\n",
        3,
        "class[a].nodes",
        "names no node",
        "at least one",
    ),
    "two classes of one name": (
        f"{CLASS}[[class]]\nname = 'k'\nnodes = 'l1'\n",
        5,
        "class[k].name",
        'second class "k"',
        "once",
    ),
    "node in two classes": (
        f"{CLASS}[[class]]\nname = 'l'\nnodes = 'l1,k3'\n",
        6,
        "class[l].nodes",
        '"k3", which is in class "k"',
        "one class",
    ),
    "unknown expected value": (f"{CLASS}fnas = 1\n", 4, "class[k].fnas", "unknown key", '"fans"'),
    "expected value's shape": (f"{CLASS}fans = [[1]]\n", 4, "class[k].fans", "a list of 1", "a number"),
    "negative count": (f"{CLASS}gpus = -8\n", 4, "class[k].gpus", "-8", "at least 0"),
    "relative mount": (
        f"{CLASS}[[class.mounts]]\npath = 'home'\n",
        5,
        "class[k].mounts[home].path",
        '"home"',
        "absolute",
    ),
    "mount with dots": (
        f"{CLASS}[[class.mounts]]\npath = '/a/../b'\n",
        5,
        "class[k].mounts[/a/../b].path",
        "/a/../b",
        '"/b"',
    ),
    "mount twice": (
        f"{CLASS}[[class.mounts]]\npath = '/a'\n[[class.mounts]]\npath = '/a'\n",
        7,
        "class[k].mounts[/a].path",
        "a second time",
        "once",
    ),
    "mount options in one": (
        f"{CLASS}mounts = [{{path = '/a', options = ['rw,nosuid']}}]\n",
        4,
        "class[k].mounts[/a].options[#1]",
        '"rw,nosuid"',
        "one word",
    ),
    "mount key": (
        f"{CLASS}[[class.mounts]]\npath = '/a'\nfstype = 'x'\n",
        6,
        "class[k].mounts[/a].fstype",
        "unknown key",
        '"type"',
    ),
    "lower above": (
        f"{CLASS}[class.references]\nfan_rpm = {{value = 1, lower = 0.1}}\n",
        5,
        "class[k].references.fan_rpm.lower",
        "0.1",
        "at most 0",
    ),
    "upper too wide": (
        f"{CLASS}[class.references]\nfan_rpm = {{value = 1, upper = 1.0}}\n",
        5,
        "class[k].references.fan_rpm.upper",
        "1.0",
        "less than 1",
    ),
    "unbounded reference": (
        f"{CLASS}[class.references]\nfan_rpm = {{value = 1}}\n",
        5,
        "class[k].references.fan_rpm",
        "a table",
        "`lower`",
    ),
    "unknown key of a reference": (
        f"{CLASS}[class.references.fan_rpm]\nvalue = 1\nuper = 0.1\n",
        6,
        "class[k].references.fan_rpm.uper",
        "unknown key",
        '"upper"',
    ),
    "reference of nothing": (
        f"{CLASS}[class.references]\nfan_rmp = {{value = 1, lower = 0}}\n",
        5,
        "class[k].references.fan_rmp",
        'a reference for "fan_rmp", which no check judges',
        '"fan_rpm"',
    ),
    "reference in another unit": (
        f"{CLASS}[class.references.fan_rpm]\nvalue = 1\nlower = 0\nunit = 'Hz'\n",
        7,
        "class[k].references.fan_rpm.unit",
        '"Hz", but fan_rpm',
        '"rpm"',
    ),
    "a class's limit against the general one": (
        f"[checks.heat]\nfail_c = 55\n{CLASS}[class.checks.heat]\nwarn_c = 56\n",
        7,
        "class[k].checks.heat.warn_c",
        "56",
        "at most 55, the value of `fail_c`",
    ),
    "class's own check": (
        f"{CLASS}[class.checks.fan_speed]\nlowst = 1\n",
        5,
        "class[k].checks.fan_speed.lowst",
        "unknown parameter",
        '"lowest"',
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_each_mistake_is_told_with_its_place(tmp_path: Path, name: str) -> None:
    assert_told(tmp_path, *WRONG[name])
