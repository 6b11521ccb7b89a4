"""The everyday page names tests that exist, at least one in each row."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/everyday.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ")][2:]
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name for _, name in NAMED])
def test_a_named_test_exists(file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_situation_has_a_test() -> None:
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in ROWS]
    assert [row[0] for row in cells if len(row) != 3 or "::test_" not in row[2] or not row[1]] == []
    assert len({row[0] for row in cells}) == len(cells) >= 30


@pytest.mark.parametrize("case", re.findall(r"\(`(\w+/\w+)`\)", PAGE))
def test_a_named_fixture_exists(case: str) -> None:
    assert (ROOT / "tests/fixtures" / case / "expect.json").exists()
