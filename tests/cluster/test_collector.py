"""A collector as a process, with a real munged, and nodes that send to it with the shipper's own code."""

from __future__ import annotations

import json
import random
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from minicluster.mounting import unmount_below
from slurm_guard.core.errors import CollectorError, MungeError
from slurm_guard.engine import courier, signing
from slurm_guard.slurm import munge
from tests.cluster.collectors import CHECKOUT, Head, Node, free_port
from tests.cluster.conftest import soak
from tests.cluster.munged import munged

NODES = 4


@pytest.fixture(scope="module")
def socket_path() -> Iterator[str]:
    """munged's, where every user may reach it."""
    with tempfile.TemporaryDirectory(prefix="sguard-") as name:
        Path(name).chmod(0o755)
        with munged(Path(name)) as path:
            yield path


@pytest.fixture
def head(tmp_path: Path, socket_path: str) -> Iterator[Head]:
    with one_head(tmp_path / "head", socket_path) as made:
        yield made


@contextmanager
def one_head(root: Path, socket_path: str, more: str = "") -> Iterator[Head]:
    made = Head(root, socket_path, more)
    try:
        yield made
    finally:
        if made.process is not None:
            made.end(signal.SIGKILL)


def nodes_of(head: Head, folder: Path, count: int = NODES) -> list[Node]:
    return [Node(head, folder / "nodes", f"n{number}") for number in range(1, count + 1)]


def ask(head: Head, node: Node, headers: dict[str, str], body: bytes = b"") -> courier.Reply:
    headers = {**headers, "Content-Type": "application/x-ndjson"}
    return courier.request(node.to.url, "POST", "/v1/records", headers, body, seconds=20)


def test_records_arrive_and_leave_the_spool(head: Head, tmp_path: Path) -> None:
    head.start()
    for node in nodes_of(head, tmp_path):
        node.write(25)
        shipped = node.ship()
        assert (shipped.why, shipped.acknowledged, shipped.left) == ("", 25, 0)
    assert head.rows("SELECT count(*), count(DISTINCT run_id) FROM runs") == [(100, 100)]
    assert head.rows("SELECT node FROM senders ORDER BY node") == [(f"n{number}",) for number in range(1, 5)]
    assert head.health()["backlog"] == 0


def test_a_new_plan_is_fetched_signed(head: Head, tmp_path: Path) -> None:
    head.start()
    (node, *_) = nodes_of(head, tmp_path, 1)
    announced, node.plan.hash = node.plan.hash, "0" * 32
    node.write()
    shipped = node.ship()
    assert (shipped.why, shipped.plan_why, shipped.plan) == ("", "", announced)
    assert Path(node.places.plan).read_bytes() == Path(head.places.plan).read_bytes()


def test_a_credential_is_accepted_once(head: Head, tmp_path: Path) -> None:
    head.start()
    (node, *_) = nodes_of(head, tmp_path, 1)
    headers, _ = signing.sign_request(node.to, "POST", "/v1/records", "n1", b"")
    assert [ask(head, node, headers).status for _ in range(2)] == [200, 409]


def test_a_nonce_is_accepted_once_over_restarts_and_collectors(head: Head, tmp_path: Path) -> None:
    head.start()
    (node, *_) = nodes_of(head, tmp_path, 1)

    def fresh_credential() -> dict[str, str]:
        payload = signing.request_payload("POST", "/v1/records", "n1", b"", "ab" * 16, time.time())
        return {signing.NODE: "n1", "Authorization": f"Munge {munge.encode(payload, node.to.munge_socket)}"}

    assert ask(head, node, fresh_credential()).status == 200
    head.end(signal.SIGKILL)
    head.start()
    assert ask(head, node, fresh_credential()).status == 409


@pytest.mark.parametrize(("uids", "status"), [("", 403), ("uids = [65534]", 200)])
def test_only_root_and_configured_users_speak_for_a_node(
    tmp_path: Path, socket_path: str, uids: str, status: int
) -> None:
    program = (
        "import json; from slurm_guard.engine import signing; "
        "from slurm_guard.engine.destination import Destination; "
        f"print(json.dumps(signing.sign_request(Destination('', munge_socket={socket_path!r}), 'POST', "
        "'/v1/records', 'n1', b'')[0]))"
    )
    made = subprocess.run(
        [sys.executable, "-c", program],
        cwd=CHECKOUT, user=65534, group=65534, extra_groups=[], capture_output=True, text=True, check=True,
    )  # fmt: skip
    with one_head(tmp_path / "head", socket_path, uids) as head:
        head.start()
        (node, *_) = nodes_of(head, tmp_path, 1)
        reply = ask(head, node, json.loads(made.stdout))
        assert reply.status == status, reply.body
        assert (b"uid 65534" in reply.body) == (status == 403)


def test_a_credential_of_another_realm_is_nobodys(head: Head, tmp_path: Path) -> None:
    head.start()
    (node, *_) = nodes_of(head, tmp_path, 1)
    with munged(tmp_path / "other") as other:
        node.to.munge_socket = other
        headers, _ = signing.sign_request(node.to, "POST", "/v1/records", "n1", b"")
    reply = ask(head, node, headers)
    assert (reply.status, b"same munge key" in reply.body) == (401, True)


def test_without_munged_nobody_is_verified_and_nobody_is_blamed(tmp_path: Path, socket_path: str) -> None:
    with one_head(tmp_path / "head", str(tmp_path / "no.sock")) as head:
        head.start()
        (node, *_) = nodes_of(head, tmp_path, 1)
        node.to.munge_socket = socket_path
        node.write()
        shipped = node.ship()
        assert "is munged running" in shipped.why
        assert shipped.retry_after
        assert shipped.left == 1


def test_an_answer_that_another_signed_is_not_taken(head: Head, tmp_path: Path) -> None:
    head.start()
    (node, *_) = nodes_of(head, tmp_path, 1)
    headers, once = signing.sign_request(node.to, "GET", "/v1/plan", "n1", b"")
    reply = courier.request(node.to.url, "GET", "/v1/plan", headers, seconds=20, largest=16 << 20)
    signature = reply.headers[signing.SIGNATURE]
    with pytest.raises(CollectorError, match="another request or another content"):
        signing.check_answer(node.to, once, reply.body + b" ", signature)
    with pytest.raises(MungeError, match="accepted once"):
        signing.check_answer(node.to, once, reply.body, signature)


def test_sigterm_commits_and_ends(head: Head, tmp_path: Path) -> None:
    process = head.start()
    nodes = nodes_of(head, tmp_path)
    for node in nodes:
        node.write(10)
    shipped = []
    threads = [threading.Thread(target=lambda node=node: shipped.append(node.ship())) for node in nodes]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    assert head.end() == 0
    for thread in threads:
        thread.join()
    assert process.returncode == 0
    acknowledged = sum(one.acknowledged for one in shipped)
    assert head.rows("SELECT count(*) FROM runs")[0][0] >= acknowledged


@pytest.mark.parametrize("seed", range(soak(2, 25)))
def test_kill_9_at_any_moment_loses_and_doubles_nothing(head: Head, tmp_path: Path, seed: int) -> None:
    draw, nodes, going = random.Random(seed), nodes_of(head, tmp_path), threading.Event()

    def work(node: Node) -> None:
        while not going.is_set():
            node.write(draw.randint(1, 20))
            node.ship()

    threads = [threading.Thread(target=work, args=(node,)) for node in nodes]
    head.start()
    for thread in threads:
        thread.start()
    for _ in range(8):
        time.sleep(draw.uniform(0.0, 0.4))
        head.end(signal.SIGKILL)
        head.start()
    going.set()
    for thread in threads:
        thread.join()
    for node in nodes:
        shipped = node.ship()
        assert (shipped.left, shipped.refused) == (0, []), shipped.why
    assert_all_stored(head, nodes)


def assert_all_stored(head: Head, nodes: list[Node]) -> None:
    """Every record that was ever written is there once, with its finding and its action."""
    written = sorted(bytes.fromhex(run_id) for node in nodes for run_id in node.written)
    assert [one for (one,) in head.rows("SELECT run_id FROM runs ORDER BY run_id")] == written
    assert head.rows("SELECT count(*) FROM findings") == [(len(written),)]
    assert head.rows("SELECT count(*) FROM actions") == [(len(written),)]


def test_two_collectors_on_one_store_both_work(tmp_path: Path, socket_path: str) -> None:
    with one_head(tmp_path / "head", socket_path) as head:
        head.start()
        first, port = head.process, head.port
        head.port = free_port()
        head.start("--listen", f"127.0.0.1:{head.port}")
        nodes = nodes_of(head, tmp_path)
        urls = [f"http://127.0.0.1:{one}" for one in (port, head.port)]

        def work(node: Node) -> None:
            for turn in range(10):
                node.to.url = urls[turn % 2]
                node.write(5)
                assert node.ship().why == ""

        threads = [threading.Thread(target=work, args=(node,)) for node in nodes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert_all_stored(head, nodes)
        assert head.end() == 0
        head.process = first
        assert head.end() == 0


def test_a_full_disk_loses_nothing(tmp_path: Path, socket_path: str) -> None:
    var = tmp_path / "head/var/lib/slurm-guard"
    var.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1200k,mode=0700", "none", str(var)], check=True)
    try:
        with one_head(tmp_path / "head", socket_path) as head:
            head.start()
            (node, *_) = nodes_of(head, tmp_path, 1)
            shipped = None
            for _ in range(60):
                node.write(20, padding=2000)
                shipped = node.ship()
                if shipped.why:
                    break
            assert shipped is not None
            assert "disk is full" in shipped.why
            assert shipped.left > 0
            assert shipped.retry_after
            subprocess.run(["mount", "-o", "remount,size=64m", str(var)], check=True)
            shipped = node.ship()
            assert (shipped.why, shipped.left) == ("", 0)
            assert_all_stored(head, [node])
            assert head.end() == 0
    finally:
        unmount_below(tmp_path)


def test_files_of_a_collector_are_its_own(head: Head) -> None:
    head.start()
    alive = Path(head.places.var) / "collector.alive"
    assert stat.S_IMODE(alive.stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(head.places.database).stat().st_mode) == 0o600
    assert time.time() - alive.stat().st_mtime < 60


def test_it_does_not_run_as_a_dynamic_user(head: Head) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "slurm_guard.cli.main", "serve", "--root", str(head.root)],
        cwd=CHECKOUT, user=61184, group=61184, extra_groups=[], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 21
    assert "DynamicUser" in done.stderr
    assert "User=slurm" in done.stderr


def test_what_keeps_it_from_listening_is_told(head: Head) -> None:
    with socket.create_server(("127.0.0.1", head.port)):
        argv = [sys.executable, "-m", "slurm_guard.cli.main", "serve", "--root", str(head.root)]
        done = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (21, "")
    assert "is another collector running here?" in done.stderr
