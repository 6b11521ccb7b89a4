"""`sguard collect` against a real sshd: what comes, what stays, and what is said of nodes that fail."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select

from slurm_guard.store import open_store, schema, senders
from tests.cluster.conftest import soak
from tests.cluster.ssh_nodes import SshNodes, ssh_nodes

HANGING = "{folder}/hang"
NOISY = "/bin/echo Welcome"
MISSING = "/nonexistent/python3 -I -S send.py"


@pytest.fixture(scope="module")
def shared_nodes() -> Iterator[SshNodes]:
    with ssh_nodes(6, {"n4": HANGING, "n5": NOISY, "n6": MISSING}) as found:
        yield found


@pytest.fixture
def nodes(shared_nodes: SshNodes) -> Iterator[SshNodes]:
    """The module's nodes, with empty spools, an empty store and the right keys again after each test."""
    kept = {name: (shared_nodes.head / name).read_bytes() for name in ("known_hosts", "user")}
    yield shared_nodes
    for name, content in kept.items():
        (shared_nodes.head / name).write_bytes(content)
    shared_nodes.configure()
    for folder in (shared_nodes.head, *(shared_nodes.folder / name for name in shared_nodes.names)):
        shutil.rmtree(folder / "var", ignore_errors=True)


def stored(nodes: SshNodes) -> list[str]:
    """The run ids in the store."""
    with open_store(nodes.head / "var/lib/slurm-guard/store.sqlite") as store, store.read() as connection:
        return sorted(one.hex() for one in connection.scalars(select(schema.runs.c.run_id)))


def test_records_come_once_and_leave_the_nodes(nodes: SshNodes) -> None:
    made = [run_id for node in ("n1", "n2", "n3") for run_id in nodes.fill(node, 4)]
    found = nodes.collect("n[1-3]")
    assert (found["taken"], found["known"], found["refused"], found["failed"]) == (12, 0, 0, "")
    assert [one["node"] for one in found["nodes"]] == ["n1", "n2", "n3"]
    assert stored(nodes) == sorted(made)
    assert [nodes.waiting(node) for node in ("n1", "n2", "n3")] == [[], [], []]
    assert nodes.collect("n[1-3]")["taken"] == 0
    with open_store(nodes.head / "var/lib/slurm-guard/store.sqlite") as store:
        heard = {one["node"]: one["address"] for one in senders.listed(store)}
    assert heard == {"n1": "127.0.7.1", "n2": "127.0.7.2", "n3": "127.0.7.3"}


def test_what_the_store_has_already_leaves_the_node(nodes: SshNodes) -> None:
    nodes.fill("n1", 3)
    spool = nodes.folder / "n1/var/lib/slurm-guard/spool"
    shutil.copytree(spool, nodes.folder / "copy")
    assert nodes.collect("n1")["taken"] == 3
    shutil.rmtree(spool)
    (nodes.folder / "copy").rename(spool)
    found = nodes.collect("n1")
    assert (found["taken"], found["known"], nodes.waiting("n1")) == (0, 3, [])


def test_many_records_come_in_several_batches(nodes: SshNodes) -> None:
    made = nodes.fill("n1", 2300)
    assert nodes.collect("n1")["taken"] == 2300
    assert stored(nodes) == sorted(made)
    assert nodes.waiting("n1") == []


def test_a_host_may_be_known_by_a_hash_and_by_several_keys(nodes: SshNodes) -> None:
    nodes.fill("n1", 1)
    known = nodes.head / "known_hosts"
    known.write_text("# old and new\n")
    nodes.know("127.0.7.1", nodes.public("head/user"))
    nodes.know("127.0.7.1", nodes.public("hostkey"))
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", known], check=True, capture_output=True)
    assert "127.0.7.1" not in known.read_text()
    assert nodes.collect("n1")["taken"] == 1


def test_a_host_is_asked_for_the_key_that_is_known_of_it(nodes: SshNodes) -> None:
    """It has two, and would show the other one first."""
    nodes.fill("n1", 1)
    (nodes.head / "known_hosts").write_text("")
    nodes.know("127.0.7.1", nodes.public("rsakey"))
    assert nodes.collect("n1")["taken"] == 1


def test_keys_of_an_agent_are_used_by_many_at_once(nodes: SshNodes) -> None:
    """Each connection has its own way to the agent; without a configured key, that is the only one."""
    agent = nodes.folder / "agent"
    for node in ("n1", "n2", "n3"):
        nodes.fill(node, 2)
    configuration = nodes.head / "etc/slurm-guard/slurm-guard.toml"
    configuration.write_text(configuration.read_text().replace('key = "/user"\n', ""))
    argv = ["ssh-agent", "-D", "-a", str(agent)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as running:
        try:
            ways = {"SSH_AUTH_SOCK": str(agent), "PATH": os.environ["PATH"]}
            wait_for(agent.exists)
            subprocess.run(["ssh-add", "-q", nodes.folder / "hostkey"], env=ways, check=True)
            subprocess.run(["ssh-add", "-q", nodes.head / "user"], env=ways, check=True)
            assert nodes.collect("n[1-3]", SSH_AUTH_SOCK=str(agent))["taken"] == 6
        finally:
            running.terminate()


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_is_no_record_is_set_aside_on_the_node_with_the_reason(nodes: SshNodes) -> None:
    (good,) = nodes.fill("n1", 1)
    home = nodes.folder / "n1/var/lib/slurm-guard"
    foreign = {"schema": "9.0", "kind": "run", "run_id": "ab" * 16}
    (home / f"spool/r-0000000000000001-{'ab' * 16}.json").write_text(json.dumps(foreign))
    (home / "spool/torn.json").write_text('{"schema": "1.')
    found = nodes.collect("n1", 1)
    assert (found["taken"], found["refused"]) == (1, 1)  # the torn one is not even offered
    assert found["nodes"][0]["reasons"][0]["run_id"] == "ab" * 16
    assert stored(nodes) == [good]
    assert nodes.waiting("n1") == []
    aside = sorted(path.name for path in (home / "set-aside").glob("*.json"))
    assert aside == [f"r-0000000000000001-{'ab' * 16}.json", "torn.json"]
    assert "9.0" in (home / f"set-aside/{aside[0]}.why").read_text()


def test_a_node_speaks_only_for_itself(nodes: SshNodes) -> None:
    (own,) = nodes.fill("n1", 1)
    nodes.fill("n1", 2, named="n2")
    found = nodes.collect("n1", 1)
    (one,) = found["nodes"]
    assert (one["taken"], one["left"]) == (1, 2)
    assert one["why"] == "2 records of node n2 lie there, and stay"
    assert "[collect.hosts]" in one["remedy"]
    assert stored(nodes) == [own]
    assert len(nodes.waiting("n1")) == 2


# What is in the way: how it is made, the nodes it concerns, and what is said of it.
def _forget(nodes: SshNodes) -> None:
    nodes.head.joinpath("known_hosts").write_text(f"[127.0.7.9]:1 {nodes.public('hostkey')}\n")


def _change(nodes: SshNodes) -> None:
    nodes.head.joinpath("known_hosts").write_text("")
    nodes.know("127.0.7.1", nodes.public("head/user"))


def _other_type(nodes: SshNodes) -> None:
    ecdsa = nodes.folder / "ecdsa"
    if not ecdsa.exists():
        nodes.key("ecdsa", "ecdsa")
    nodes.head.joinpath("known_hosts").write_text("")
    nodes.know("127.0.7.1", nodes.public("ecdsa"))


def _revoke(nodes: SshNodes) -> None:
    nodes.know("*", nodes.public("hostkey"), "@revoked ")


def _other_key(nodes: SshNodes) -> None:
    shutil.copy(nodes.folder / "hostkey", nodes.head / "user")


def _damage(nodes: SshNodes) -> None:
    """Lines that nobody can read count for nothing, and do not keep others from counting."""
    lines = [
        "[127.0.7.1]:1 ssh-ed25519 AAAA",
        "@cert-authority * ssh-ed25519",
        "|1|x|y ssh-rsa A",
        "\0 \0 \0",
    ]
    nodes.head.joinpath("known_hosts").write_text("\n".join(lines))


def _nothing(nodes: SshNodes) -> None:
    pass


IN_THE_WAY: dict[str, tuple[Callable[[SshNodes], None], str, str, str]] = {
    "unknown host": (_forget, "n1", "its host key is not known in", "add it to that file"),
    "damaged file": (_damage, "n1", "its host key is not known in", "add it to that file"),
    "changed key": (_change, "n1", "its host key has changed", "somebody else answers"),
    "other type": (_other_type, "n1", "host key of type ssh-ed25519, of which none is known", "compare"),
    "revoked key": (_revoke, "n1", "its host key is revoked", "new host keys"),
    "not our key": (_other_key, "n1", "it takes none of our keys for user root", "authorized_keys"),
    "no such name": (_nothing, "nowhere.invalid", "the name is not known", "[collect.hosts]"),
    "noise": (_nothing, "n5", "the command there says 'Welcome'", "start-up file"),
    "not installed": (_nothing, "n6", "the command there says", "`command` in [collect]"),
}


@pytest.mark.parametrize("name", IN_THE_WAY)
def test_what_is_in_the_way_is_named_with_what_to_do(nodes: SshNodes, name: str) -> None:
    make, node, why, remedy = IN_THE_WAY[name]
    if node in nodes.names:
        nodes.fill(node, 2)
    make(nodes)
    found = nodes.collect(node, 1)
    (one,) = found["nodes"]
    assert why in one["why"], one
    assert remedy in one["remedy"], one
    assert found["failed"] == node
    assert node not in nodes.names or len(nodes.waiting(node)) == 2
    assert ("SHA256:" in one["detail"]) == ("host key" in one["why"])


def test_nodes_that_fail_alike_are_folded_and_the_others_come(nodes: SshNodes) -> None:
    nodes.fill("n3", 2)
    lines = (nodes.head / "known_hosts").read_text().splitlines(keepends=True)
    (nodes.head / "known_hosts").write_text("".join(lines[2:]))
    running = nodes.start("n[1-3]")
    out, err = running.communicate(timeout=60)
    assert running.returncode == 1
    assert out == "2 records of 1 node taken, 0 known already, 0 refused\n"
    assert err.startswith("sguard: n[1-2]: its host key is not known in")
    assert err.count("SHA256:") == 2


Server = Callable[[socket.socket], None]


def _silent(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def _web(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nServer: door\r\n\r\n" * 3)


def _garbage(connection: socket.socket) -> None:
    connection.sendall(b"SSH-2.0-door\r\n" + random.Random(7).randbytes(90_000))


OTHERS: dict[str, tuple[Server | None, str]] = {
    "nobody": (None, "connection refused, port"),
    "silence": (_silent, "no SSH within 1 s"),
    "web server": (_web, "no SSH connection ("),
    "garbage": (_garbage, "no SSH"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_sshd_costs_its_deadline_at_most(nodes: SshNodes, name: str) -> None:
    server, why = OTHERS[name]
    configuration = nodes.head / "etc/slurm-guard/slurm-guard.toml"
    text = configuration.read_text().replace("connect_s = 30", "connect_s = 1")
    configuration.write_text(f'{text}far = "127.0.7.99"\n')
    with closing(socket.socket()) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.7.99", nodes.port))
        if server is not None:
            listening.listen()
            threading.Thread(target=_serve, args=(listening, server), daemon=True).start()
        (one,) = nodes.collect("far", 1)["nodes"]
    assert one["why"].startswith(why), one
    assert one["remedy"]


def _serve(listening: socket.socket, server: Server) -> None:
    try:
        connection, _ = listening.accept()
        with connection:
            server(connection)
    except OSError:
        pass  # the test is over


def test_a_far_side_that_stops_costs_the_transfer_s_deadline(nodes: SshNodes) -> None:
    nodes.configure(transfer_s=1)
    (one,) = nodes.collect("n4", 1)["nodes"]
    assert one["why"].startswith("not all of it came within 1 s")


def test_a_full_disk_costs_no_record(nodes: SshNodes) -> None:
    """The store may grow to half a megabyte; what does not fit stays on the nodes until it may grow again."""
    made = [run_id for node in ("n1", "n2") for run_id in nodes.fill(node, 2500)]
    command = ["prlimit", "--fsize=500000", *nodes.command("n[1-2]")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)
    assert (done.returncode, done.stdout) == (17, ""), done.stderr
    assert len(done.stderr.splitlines()) == 1
    left = sum(len(nodes.waiting(node)) for node in ("n1", "n2"))
    assert left >= len(made) - len(stored(nodes)) > 0
    _collect_all(nodes)
    assert stored(nodes) == sorted(made)
    assert nodes.waiting("n1") == nodes.waiting("n2") == []


def test_an_interrupt_ends_it_although_a_node_hangs(nodes: SshNodes) -> None:
    (nodes.folder / "hangs").unlink(missing_ok=True)
    running = nodes.start("n4")
    wait_for((nodes.folder / "hangs").exists)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=30)  # the transfer has 60 s
    assert running.returncode == 130, said


@pytest.mark.timeout(600)
def test_killed_at_any_moment_nothing_is_lost_and_nothing_doubled(nodes: SshNodes) -> None:
    """The collecting side and the sending sides are killed at random while records come and more are made."""
    dice = random.Random(20)
    made: list[str] = []
    killed = 0
    for turn in range(soak(6, 80)):
        for node in ("n1", "n2", "n3"):
            made += nodes.fill(node, dice.randrange(300))
        running = nodes.start("n[1-3]")
        wait_for(lambda one=running: bool(nodes.senders()) or one.poll() is not None)
        time.sleep(dice.uniform(0, 0.3) if turn != 1 else 0)  # once at the very beginning
        killed += nodes.kill_senders() if turn % 2 else 0
        time.sleep(dice.uniform(0, 0.1))
        running.kill()
        running.communicate()
    _collect_all(nodes)
    assert stored(nodes) == sorted(made)
    assert [nodes.waiting(node) for node in ("n1", "n2", "n3")] == [[], [], []]
    assert not Path(nodes.folder / "n1/var/lib/slurm-guard/set-aside").exists()
    assert killed


def _collect_all(nodes: SshNodes) -> None:
    """A sending side whose other side was killed holds its lock until it notices: that takes a moment."""
    end = time.monotonic() + 30
    while nodes.senders() and time.monotonic() < end:
        time.sleep(0.05)
    nodes.collect("n[1-3]")
