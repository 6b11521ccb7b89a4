"""A running collector for tests that ask it something."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_guard.collector.service import Collector
from tests.unit.collector.kit import running, settings_in


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    with running(settings_in(tmp_path)) as started:
        yield started
