"""A store, the plans of some nodes, and no waiting for others of the same cause."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_guard.collector import judge
from slurm_guard.collector.node_plans import NodePlans
from slurm_guard.store import Store, open_store
from tests.unit.collector.fake_slurm import (
    plan_in,
)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "SETTLE_MS", 0)
    monkeypatch.setattr(judge, "SETTLE_SHARED_MS", 0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


@pytest.fixture
def plans(tmp_path: Path) -> NodePlans:
    return plan_in(tmp_path)
