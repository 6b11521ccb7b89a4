"""Which addresses are a node's, from a real slurmctld; and a node of that cluster that sends."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from minicluster import Cluster
from slurm_guard.collector.answers import RefusalError
from slurm_guard.collector.origins import Origins
from slurm_guard.core.errors import SlurmUnreachableError
from slurm_guard.slurm.command_gateway import CommandGateway
from tests.cluster.collectors import Head, Node


@pytest.fixture(scope="module")
def slurm() -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="collector-"))
    folder.chmod(0o755)
    cluster = Cluster(folder, nodes=3, simulate=False)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def status(origins: Origins, node: str, *addresses: str) -> int:
    async def ask() -> int:
        try:
            await origins.require(node, addresses)
        except RefusalError as error:
            return error.status
        return 200

    return asyncio.run(ask())


def test_addresses_as_slurm_tells_them(slurm: Cluster) -> None:
    gateway = CommandGateway({}, str(slurm.conf_path))
    found = gateway.addresses(30.0)
    assert sorted(found) == ["n1", "n2", "n3"]
    assert {address for address, _host in found.values()} == {"127.0.0.1"}
    assert gateway.calls == 1
    origins = Origins(lambda: gateway.addresses(30.0))
    assert status(origins, "n1", "127.0.0.1") == 200
    assert status(origins, "n1", "192.0.2.1") == 403
    assert status(origins, "n9", "127.0.0.1") == 403
    origins.close()


def test_a_comment_with_an_address_in_it_moves_no_node(slurm: Cluster) -> None:
    text = "x NodeAddr=192.0.2.7 NodeHostName=evil\nNodeName=n2 NodeAddr=192.0.2.7 NodeHostName=evil "
    slurm.run(["scontrol", "update", "nodename=n1", f"comment={text}"])
    found = CommandGateway({}, str(slurm.conf_path)).addresses(30.0)
    assert {address for address, _host in found.values()} == {"127.0.0.1"}


def test_a_collector_asks_slurm_and_lets_its_nodes_in(slurm: Cluster, tmp_path: Path) -> None:
    head = Head(tmp_path / "head", str(slurm.layout.munge_socket), f'[slurm]\nconf = "{slurm.conf_path}"', "")
    head.start()
    try:
        for name, why in (("n1", ""), ("n9", "Slurm knows no node n9")):
            node = Node(head, tmp_path / "nodes", name)
            node.write(2)
            shipped = node.ship()
            assert why in shipped.why
            assert shipped.left == (2 if why else 0)
        slurm.pause_controller()
        try:
            node = Node(head, tmp_path / "nodes", "n1")
            node.write(1)
            assert node.ship().why == ""
        finally:
            slurm.resume_controller()
    finally:
        head.end()
    assert head.rows("SELECT count(*) FROM runs") == [(3,)]


def test_a_silent_controller_is_an_error_with_a_deadline(slurm: Cluster) -> None:
    slurm.pause_controller()
    try:
        with pytest.raises(SlurmUnreachableError):
            CommandGateway({}, str(slurm.conf_path)).addresses(0.5)
    finally:
        slurm.resume_controller()
