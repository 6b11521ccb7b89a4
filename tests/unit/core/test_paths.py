"""Where things lie below a root, and a node file that is not what it should be."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from slurm_guard.core.paths import Places

if TYPE_CHECKING:
    from pathlib import Path


def places(root: Path, content: str) -> Places:
    (root / "etc/slurm-guard").mkdir(parents=True)
    (root / "etc/slurm-guard/node.json").write_text(content)
    return Places(str(root))


def test_the_node_file_moves_the_guards_folders(tmp_path: Path) -> None:
    moved = places(tmp_path, json.dumps({"places": {"var": "/local/guard"}, "node": "gn01"}))
    assert moved.var == str(tmp_path / "local/guard")
    assert moved.run == str(tmp_path / "run/slurm-guard")
    assert (moved.node["node"], moved.node_problem) == ("gn01", "")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "7",
        '"text"',
        "null",
        "[" * 100_000,
        '{"places": []}',
        '{"places": "/var"}',
        '{"places": {"var": 7}}',
        '{"places": {"run": null}}',
        '{"places": {"var": ""}}',
    ],
)
def test_whatever_else_it_holds_is_told_and_the_usual_places_are_used(tmp_path: Path, content: str) -> None:
    usual = places(tmp_path, content)
    assert usual.node_problem.startswith(usual.node_file)
    assert usual.var == str(tmp_path / "var/lib/slurm-guard")
    assert usual.run == str(tmp_path / "run/slurm-guard")
    assert isinstance(usual.node, dict)


@pytest.mark.parametrize(
    ("owner", "group", "mode", "why"),
    [
        (0, 0, 0o644, ""),
        (0, 0, 0o664, ""),
        (0, 0, 0o646, "may be written by everybody"),
        (0, 65534, 0o664, "may be written by group 65534"),
        (0, 65534, 0o644, ""),
        (65534, 0, 0o644, "belongs to uid 65534"),
    ],
)
@pytest.mark.needs_root
def test_who_writes_the_node_file_is_root_or_it_counts_for_nothing(
    tmp_path: Path, owner: int, group: int, mode: int, why: str
) -> None:
    """It names folders, the collector and a program that root runs."""
    places(tmp_path, '{"places": {"var": "/elsewhere"}, "chain": {"healthcheck": ["/bin/true"]}}')
    file = tmp_path / "etc/slurm-guard/node.json"
    os.chown(file, owner, group)
    file.chmod(mode)
    found = Places(str(tmp_path))
    assert bool(found.node) is not bool(why)
    assert why in found.node_problem
    assert found.var == str(tmp_path / ("var/lib/slurm-guard" if why else "elsewhere"))


def test_a_pipe_or_an_endless_node_file_is_not_read_for_ever(tmp_path: Path) -> None:
    places(tmp_path, json.dumps({"node": "x" * (2 << 20)}))
    assert Places(str(tmp_path)).node == {}
    (tmp_path / "etc/slurm-guard/node.json").unlink()
    os.mkfifo(tmp_path / "etc/slurm-guard/node.json", 0o600)
    assert "no regular file" in Places(str(tmp_path)).node_problem
