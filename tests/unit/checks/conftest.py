"""A simulated node for the tests that need one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.checks.simulated_node import SimulatedNode

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def one_simulated_node(tmp_path_factory: pytest.TempPathFactory) -> SimulatedNode:
    return SimulatedNode(tmp_path_factory.mktemp("node"))


@pytest.fixture
def simulated(one_simulated_node: SimulatedNode) -> SimulatedNode:
    """A healthy node; its folder is shared by all tests, since making it costs more than most of them."""
    one_simulated_node.reset()
    return one_simulated_node


@pytest.fixture
def own_node(tmp_path: Path) -> SimulatedNode:
    """A node for a test that changes more than the simulated hardware."""
    return SimulatedNode(tmp_path)
