"""Blocks of ports: clusters that start side by side never share one."""

from __future__ import annotations

import json
import random
import socket
from typing import TYPE_CHECKING

import pytest

from minicluster import ports
from minicluster.errors import StartError
from minicluster.files import locked

if TYPE_CHECKING:
    from pathlib import Path


def free_range(count: int) -> int:
    """Where `count` ports in a row are free, away from those of real clusters on this host."""
    starts = list(range(10_000, 20_000 - count, 100))
    random.shuffle(starts)
    return next(first for first in starts if all(ports._can_bind(first + i) for i in range(count)))


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A port registry of the test's own."""
    monkeypatch.setattr(ports, "REGISTRY", tmp_path / "registry")
    first = free_range(10 * ports.BLOCK)
    monkeypatch.setattr(ports, "FIRST_PORT", first)
    monkeypatch.setattr(ports, "LAST_PORT", first + 10 * ports.BLOCK)
    return tmp_path / "registry"


def claim(directory: Path, base: int, state: str = "up") -> None:
    directory.mkdir(exist_ok=True)
    (directory / "cluster.json").write_text(json.dumps({"port": base, "state": state}))


def reserve(directory: Path, count: int) -> int:
    """The first port of a block that the cluster in this folder has from now on."""
    ports.reserve(directory, count, lambda base: claim(directory, base))
    return int(json.loads((directory / "cluster.json").read_text())["port"])


def test_clusters_get_blocks_that_do_not_overlap(tmp_path: Path, registry: Path) -> None:
    bases = [reserve(tmp_path / name, 66) for name in "abcdef"]
    assert len(set(bases)) == 6
    assert all(abs(one - other) >= ports.BLOCK for one in bases for other in bases if one != other)
    assert all(ports.FIRST_PORT <= base <= ports.LAST_PORT - 66 for base in bases)


def test_a_block_is_free_again_when_its_cluster_is_down_gone_or_elsewhere(
    tmp_path: Path, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "LAST_PORT", ports.FIRST_PORT + ports.BLOCK + 1)  # one block in all
    base = reserve(tmp_path / "a", 3)
    with pytest.raises(StartError, match="no free block"):
        reserve(tmp_path / "b", 3)
    claim(tmp_path / "a", base, state="down")
    assert reserve(tmp_path / "b", 3) == base
    ports.release(tmp_path / "a", base)  # not a's any more
    with pytest.raises(StartError):
        reserve(tmp_path / "c", 3)
    ports.release(tmp_path / "b", base)
    assert reserve(tmp_path / "c", 3) == base


def test_a_port_in_use_is_avoided(tmp_path: Path, registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "LAST_PORT", ports.FIRST_PORT + 2 * ports.BLOCK + 1)  # two blocks
    first = reserve(tmp_path / "a", 3)
    ports.release(tmp_path / "a", first)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first + 2))
        taken.listen()
        assert reserve(tmp_path / "b", 3) != first


def test_too_many_ports_are_refused(tmp_path: Path, registry: Path) -> None:
    with pytest.raises(StartError, match="at most"):
        reserve(tmp_path, ports.BLOCK + 1)


def test_nobody_chooses_a_block_until_its_cluster_says_that_it_has_it(tmp_path: Path, registry: Path) -> None:
    def claim_slowly(base: int) -> None:
        with locked(registry / "lock", wait=False) as is_free:
            seen.append(is_free)

    seen: list[bool] = []
    ports.reserve(tmp_path / "a", 3, claim_slowly)
    assert seen == [False]
