"""Fixtures of the commands' tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.cli.slurm_stub import StubGateway, idle, put_plan

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> StubGateway:
    """A Slurm of three idle nodes, behind every command's door."""
    stub = StubGateway(idle("n1"), idle("n2"), idle("n10"))
    for module in ("door", "fleet", "job_lookup"):
        monkeypatch.setattr(f"slurm_guard.cli.{module}.door", lambda _: stub)
    return stub


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of a host with a plan that returns nodes by itself."""
    put_plan(tmp_path, default_profile={"modes": [["*", "*", "enforce"]]})
    return tmp_path
