"""Which files are read, how they lie over each other, and files that are none."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

from slurm_guard.config import load
from slurm_guard.core.errors import ConfigError
from slurm_guard.core.paths import Places
from tests.unit.config.samples import CLASS, WHOLE, places_with, read

if TYPE_CHECKING:
    from pathlib import Path


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


@pytest.mark.parametrize("name", ["slurm-guard.toml", "conf.d/10-x.toml"])
def test_a_pipe_in_a_file_s_place_is_told_and_not_waited_for(tmp_path: Path, name: str) -> None:
    places = Places(str(tmp_path))
    (tmp_path / "etc/slurm-guard/conf.d").mkdir(parents=True)
    os.mkfifo(tmp_path / "etc/slurm-guard" / name)
    assert "not a regular file" in str(load.read(places).problems[0])
