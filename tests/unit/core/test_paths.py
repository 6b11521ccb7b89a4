"""Where things lie below a root, and a node file that is not what it should be."""

from __future__ import annotations

import json
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
