"""Reading and checking: everything that is wrong, in one go, with its place."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.config import load
from slurm_guard.config.model import Config
from slurm_guard.core.errors import ConfigError
from slurm_guard.core.paths import Places
from tests.unit.config.samples import CATALOGUE, FULL, WHOLE, places_with, read

if TYPE_CHECKING:
    from pathlib import Path

CLASS = '[[class]]\nname = "k"\nnodes = "k[1-4]"\n'

# name: (text, line, key, part of what was found, part of what was expected)
WRONG = {
    "not toml": ("b = 2\na = \n", 2, "", "syntax error", "TOML"),
    "unknown section": ("[bugdet]\n", 1, "bugdet", "unknown key", '"budget"'),
    "unknown top key": ("clustr = 'x'\n", 1, "clustr", "unknown key", '"cluster"'),
    "unknown key of a section": (
        "\n[budget]\nper_hours = 1\n",
        3,
        "budget.per_hours",
        "unknown key",
        '"per_hour"',
    ),
    "no near miss": ("[slurm]\nzzz = 1\n", 2, "slurm.zzz", "unknown key", "one of bin, conf, programs"),
    "field name of ours": ("[[classes]]\n", 1, "classes", "unknown key", '"class"'),
    "text for a number": ("[budget]\nnodes = 'two'\n", 2, "budget.nodes", '"two"', "a whole number"),
    "number with a fraction": ("[budget]\nnodes = 2.5\n", 2, "budget.nodes", "2.5", "a whole number"),
    "boolean for a number": ("[budget]\nnodes = true\n", 2, "budget.nodes", "true", "a whole number"),
    "negative": ("[budget]\nnodes = -1\n", 2, "budget.nodes", "-1", "at least 0"),
    "percent": ("[budget]\npercent = 101\n", 2, "budget.percent", "101", "at most 100"),
    "not a number": ("[budget]\npercent = nan\n", 2, "budget.percent", "nan", "number"),
    "endless deadline": ("[deadlines]\nprolog = inf\n", 2, "deadlines.prolog", "inf", "at most 18"),
    "longer than the shim": (
        "[deadlines]\nhealthcheck = 60\n",
        2,
        "deadlines.healthcheck",
        "60",
        "at most 48",
    ),
    "date": ("cluster = 2020-01-01\n", 1, "cluster", "2020-01-01", "a text"),
    "list for a table": ("slurm = [1]\n", 1, "slurm", "a list of 1", "a table"),
    "table for a list": ("owners = {}\n", 1, "owners", "a table", "a list"),
    "no owner": ("owners = []\n", 1, "owners", "an empty list", "at least 1"),
    "owner": ("owners = ['a b']\n", 1, "owners[#1]", '"a b"', "one word"),
    "relative conf": ("[slurm]\nconf = 'slurm.conf'\n", 2, "slurm.conf", '"slurm.conf"', "absolute path"),
    "relative program": (
        "[slurm.programs]\nsinfo = 'sinfo'\n",
        2,
        "slurm.programs.sinfo",
        '"sinfo"',
        "absolute path",
    ),
    "more runs than there are": ("[confirm]\nruns = 4\n", 1, "confirm", "a table", "at most `of` (3)"),
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
    text, line, key, found, expected = WRONG[name]
    reading = read(tmp_path, text)
    assert reading.config is None
    told = [(one.line, one.key) for one in reading.problems]
    assert told == [(line, key)], [str(one) for one in reading.problems]
    problem = reading.problems[0]
    assert problem.file.startswith(str(tmp_path / "etc/slurm-guard/slurm-guard.toml"))
    assert found in problem.found
    assert expected in problem.expected


def test_all_mistakes_of_all_files_come_in_one_error(tmp_path: Path) -> None:
    places = places_with(
        tmp_path,
        "[budget]\nnodes = 'x'\npercent = 'y'\n",
        a="broken",
        b="[slurm]\nconf = 'x'\n[[mode]]\nmode = 3\n",
    )
    with pytest.raises(ConfigError) as caught:
        load.load(places)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"the configuration in {places.etc} has 5 errors:"
    assert max(map(len, lines[1:])) <= 72
    wanted = [
        r"a\.toml:1: found a syntax",
        r"slurm-guard\.toml:2: budget.nodes",
        r"toml:3: budget.percent",
    ]
    wanted += [r"b\.toml:2: slurm.conf", r"b\.toml:4: mode\[#1\].mode"]
    for pattern in wanted:
        assert sum(bool(re.search(pattern, line)) for line in lines) == 1, pattern


def test_a_full_configuration_is_read(tmp_path: Path) -> None:
    reading = read(tmp_path, FULL)
    assert [str(one) for one in reading.problems] == []
    assert reading.notes == [
        "mode[fan_speed].nodes: lone7 in no class: nothing is expected there, or a slip?"
    ]
    assert reading.config is not None
    assert reading.config.policy == {"fan_speed.slow": "JOB", "link_log.79": "DRAIN_RMA", "fan_count": "NOTE"}
    assert reading.config.classes[0].model_extra == {"fans": 6}


def test_without_a_file_the_defaults_apply_and_it_is_said(tmp_path: Path) -> None:
    reading = read(tmp_path)
    assert reading.config == Config()
    assert reading.files == []
    assert "the built-in defaults apply" in reading.notes[0]


def test_later_files_win_key_by_key_and_add_classes(tmp_path: Path) -> None:
    one = "[budget]\nnodes = 1\npercent = 1\n" + CLASS
    later = {
        "10-b": "[budget]\nnodes = 3\n[[class]]\nname = 'z'\nnodes = 'z'\n",
        "05-a": "[budget]\nnodes = 2\n",
    }
    reading = read(tmp_path, one, **later, ignored_=".")
    (tmp_path / "etc/slurm-guard/conf.d/ignored_.toml").unlink()
    (tmp_path / "etc/slurm-guard/conf.d/README").write_text("not = [toml")
    (tmp_path / "etc/slurm-guard/conf.d/.hidden.toml").write_text("not = [toml")
    reading = load.read(places_with(tmp_path), WHOLE)
    assert reading.config is not None, reading.problems
    assert (reading.config.budget.nodes, reading.config.budget.percent) == (3, 1)
    assert [one.name for one in reading.config.classes] == ["k", "z"]
    assert [file.rpartition("/")[2] for file in reading.files] == [
        "slurm-guard.toml",
        "05-a.toml",
        "10-b.toml",
    ]


def test_a_broken_check_does_not_break_the_configuration(tmp_path: Path) -> None:
    text = "[checks.half_baked]\nanything = 3\n[policy]\nhalf_baked.code = 'NOTE'\n"
    text += "[[mode]]\ncheck = 'half_*'\nmode = 'off'\n"
    reading = read(tmp_path, text + CLASS + "its_own = 4\n", catalogue=CATALOGUE)
    assert reading.problems == []
    (note,) = reading.notes
    assert note.startswith("check half_baked cannot be loaded (SyntaxError: invalid syntax)")
    assert note.endswith("was not checked")


def test_a_fault_number_of_a_check_with_numbers_need_not_be_listed(tmp_path: Path) -> None:
    assert read(tmp_path, "[policy]\nlink_log.999 = 'NOTE'\nlink_log.x_20034 = 'NOTE'\n").problems == []


def test_a_syntax_error_has_its_file_line_and_column_apart(tmp_path: Path) -> None:
    (problem,) = read(tmp_path, "a = 1\n[budget]\nnodes = =\n").problems
    assert problem.as_dict() == {
        "file": str(tmp_path / "etc/slurm-guard/slurm-guard.toml"),
        "line": 3,
        "column": 9,
        "key": "",
        "found": "a syntax error (Invalid value)",
        "expected": "TOML",
    }
    assert problem.beside(str(tmp_path / "etc/slurm-guard")).startswith(
        "slurm-guard.toml:3:9: found a syntax"
    )


def test_nodes_of_a_mode_that_no_class_has_are_told(tmp_path: Path) -> None:
    text = CLASS + "[[mode]]\nmode = 'off'\nnodes = 'k[3-6]'\n"
    reading = read(tmp_path, text)
    assert reading.problems == []
    assert reading.notes == ["mode[#1].nodes: k[5-6] in no class: nothing is expected there, or a slip?"]
    assert read(tmp_path, "[[mode]]\nmode = 'off'\nnodes = 'k[3-6]'\n").notes == []  # a site without classes


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"cluster = '\xff'", "UTF-8"), (b"#" + b"x" * (4 << 20), "readable"), (b"x = " + b"[" * 5000, "TOML")],
)
def test_files_that_are_not_text(tmp_path: Path, data: bytes, expected: str) -> None:
    places = places_with(tmp_path, "")
    (tmp_path / "etc/slurm-guard/slurm-guard.toml").write_bytes(data)
    problem = load.read(places, WHOLE).problems[0]
    assert expected in problem.expected


def test_a_folder_in_place_of_a_file_and_a_dangling_link(tmp_path: Path) -> None:
    places = places_with(tmp_path)
    (tmp_path / "etc/slurm-guard/slurm-guard.toml").symlink_to("nowhere")
    (tmp_path / "etc/slurm-guard/conf.d/x.toml").mkdir()
    problems = load.read(places, WHOLE).problems
    assert [one.found for one in problems] == ["No such file or directory", "Is a directory"]


KEYS = [
    "class",
    "mode",
    "checks",
    "policy",
    "nodes",
    "mounts",
    "references",
    "fan_speed",
    "name",
    "slurm",
    "x.y",
    "budget",
]
VALUES = st.recursive(
    st.one_of(
        st.integers(),
        st.floats(),
        st.booleans(),
        st.text(max_size=5),
        st.dates(),
        st.sampled_from(["a[1-3]", "k[", "/a"]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(data=st.binary(max_size=200) | st.text(alphabet="[]=\n\"'{}.#,-0a\\_ ", max_size=80).map(str.encode))
def test_any_bytes_are_read_or_told_as_errors(tmp_path: Path, data: bytes) -> None:
    places = places_with(tmp_path)
    (tmp_path / "etc/slurm-guard/slurm-guard.toml").write_bytes(data)
    reading = load.read(places, WHOLE)
    assert (reading.config is None) == bool(reading.problems)
    assert all(str(one) for one in reading.problems)


@given(settings=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6))
def test_any_toml_values_are_read_or_told_as_errors(tmp_path: Path, settings: dict[str, object]) -> None:
    places = places_with(
        tmp_path, "\n".join(f"{_toml(key)} = {_toml_value(value)}" for key, value in settings.items())
    )
    reading = load.read(places, WHOLE)
    assert not any("syntax error" in one.found for one in reading.problems), reading.problems
    if reading.config is None:
        with pytest.raises(ConfigError):
            load.require(reading)


def _toml(text: str) -> str:
    escaped = "".join(
        letter if letter.isalnum() and letter.isascii() else f"\\U{ord(letter):08x}" for letter in text
    )
    return f'"{escaped}"'


def _toml_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _toml(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(key)} = {_toml_value(inner)}" for key, inner in value.items()) + "}"
    return str(value)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[policy]\ngpu_xid.9999 = 'NOTE'\n", "policy.gpu_xid.9999"),
        ("[policy]\ngpu_xid.sxid_ = 'NOTE'\n", "policy.gpu_xid.sxid_"),
        ("[checks.gpu_temperature]\nfail_c = 80\n", "checks.gpu_temperature.fail_c"),
        (CLASS + "[class.references]\nib_rates = {value = 400, lower = 0}\n", "class[k].references.ib_rates"),
        (
            CLASS + "[class.references]\nib_rate = {value = 4, lower = 0, unit = 'GB/s'}\n",
            "class[k].references.ib_rate.unit",
        ),
    ],
)
def test_slips_that_the_built_in_checks_know(tmp_path: Path, text: str, key: str) -> None:
    assert [problem.key for problem in load.read(places_with(tmp_path, text)).problems] == [key]


def test_what_the_built_in_checks_take(tmp_path: Path) -> None:
    text = "[policy]\ngpu_xid.999 = 'NOTE'\ngpu_xid.sxid_20034 = 'WARN'\n" + CLASS
    text += "[class.references]\nib_symbol_errors_per_h = {value = 9, upper = 0.0, unit = 'errors per h'}\n"
    assert [str(problem) for problem in load.read(places_with(tmp_path, text)).problems] == []


@pytest.mark.parametrize("name", ["slurm-guard.toml", "conf.d/10-x.toml"])
def test_a_pipe_in_a_file_s_place_is_told_and_not_waited_for(tmp_path: Path, name: str) -> None:
    places = Places(str(tmp_path))
    (tmp_path / "etc/slurm-guard/conf.d").mkdir(parents=True)
    os.mkfifo(tmp_path / "etc/slurm-guard" / name)
    assert "not a regular file" in str(load.read(places).problems[0])
