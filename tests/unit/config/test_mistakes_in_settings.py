"""Mistakes in the file itself and in its plain sections: each told once, with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.config.samples import assert_told

if TYPE_CHECKING:
    from pathlib import Path

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
}


@pytest.mark.parametrize("name", WRONG)
def test_each_mistake_is_told_with_its_place(tmp_path: Path, name: str) -> None:
    assert_told(tmp_path, *WRONG[name])
