"""What is made of a far side's bytes, whatever they are; how many nodes are asked at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core.errors import RemoteError, StoreError
from slurm_guard.remote import pull
from slurm_guard.remote.pull import Committed, Pulled
from slurm_guard.remote.ssh import Wire
from slurm_guard.remote.target import Access, Target

HELLO = b'slurm-guard-spool {"v": 1, "node": "n1", "waiting": 2}\n'


class FarSide:
    """A channel that says what it was given, in pieces; `sent` is what it was told."""

    def __init__(self, said: bytes, piece: int = 7, complaint: bytes = b"") -> None:
        self.said, self.piece, self.complaint = said, piece, complaint
        self.sent = b""

    def settimeout(self, _seconds: float) -> None:
        pass

    def recv(self, most: int) -> bytes:
        size = min(most, self.piece)
        found, self.said = self.said[:size], self.said[size:]
        return found

    def recv_stderr(self, most: int) -> bytes:
        return self.complaint[:most]

    def sendall(self, data: bytes) -> None:
        self.sent += data


class Committing:
    """Commits everything; `lines` are what came."""

    def __init__(self, foreign: tuple[str, ...] = ()) -> None:
        self.lines: list[bytes] = []
        self.foreign = foreign

    def __call__(self, _target: Target, lines: list[bytes]) -> Committed:
        self.lines += lines
        return Committed([f"id{number}" for number in range(len(lines))], 0, [], list(self.foreign))


def converse(far: FarSide, commit: Committing) -> Pulled:
    done = Pulled(Target("n1", "n1"))
    try:
        pull._converse(Wire(far, 30), done.target, commit, done)  # type: ignore[arg-type]
    except RemoteError as error:
        done.fail(error)
    return done


def batch(*lines: bytes) -> bytes:
    body = b"".join(line + b"\n" for line in lines)
    return f"batch {len(lines)} {len(body)}\n".encode() + body


@pytest.mark.parametrize("piece", [1, 5, 4096])
def test_batches_are_acknowledged_one_by_one(piece: int) -> None:
    far, commit = FarSide(HELLO + batch(b"a", b"bb") + batch(b"") + b"end 0\n", piece), Committing()
    done = converse(far, commit)
    assert (done.why, done.taken, commit.lines) == ("", 3, [b"a", b"bb", b""])
    assert [json.loads(line)["acknowledged"] for line in far.sent.splitlines()] == [["id0", "id1"], ["id0"]]


# name: what comes, what is said, what was committed
ODD: dict[str, tuple[bytes, str, int]] = {
    "nothing": (b"", "says 'no such program'", 0),
    "text": (b"Last login: yesterday\n", "says 'Last login: yesterday'", 0),
    "no version": (b"slurm-guard-spool {}\n", "says 'slurm-guard-spool {}'", 0),
    "no JSON": (b"slurm-guard-spool [[[[\n", "says 'slurm-guard-spool [[[['", 0),
    "another version": (b'slurm-guard-spool {"v": 2}\n', "speaks version 2, not 1", 0),
    "its own error": (b"error the disk\x1b[31m is sick\n", "the disk [31m is sick", 0),
    "an error later": (HELLO + batch(b"a") + b"error no lock\n", "no lock", 1),
    "cut in a line": (HELLO + b"bat", "says 'bat'", 0),
    "cut in a batch": (HELLO + batch(b"abc")[:-2], "the connection broke", 0),
    "cut after a batch": (HELLO + batch(b"a"), "the connection broke", 1),
    "endless line": (HELLO + b"batch " + b"9" * 5000, "says 'batch 999", 0),
    "negative": (HELLO + b"batch -1 5\n", "says 'batch -1 5'", 0),
    "too many": (HELLO + b"batch 1001 2002\n", "sends 1001 records of 2002 bytes", 0),
    "too large": (HELLO + b"batch 1 99999999\n", "sends 1 records of 99999999 bytes", 0),
    "none": (HELLO + b"batch 0 0\n", "sends 0 records", 0),
    "fewer lines": (HELLO + b"batch 2 4\nabc\nend 0\n", "a batch that does not hold", 0),
    "no line's end": (HELLO + b"batch 1 3\nabcend 0\n", "a batch that does not hold", 0),
    "another word": (HELLO + b"rm 1 2\n", "says 'rm'", 0),
    "end of what": (HELLO + b"end\n", "says 'end'", 0),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_not_the_protocol_is_named_and_not_taken(name: str) -> None:
    said, why, committed = ODD[name]
    commit = Committing()
    done = converse(FarSide(said, complaint=b"no such\x00 program\n"), commit)
    assert why in done.why, done
    assert done.remedy
    assert done.why.isprintable()
    assert len(commit.lines) == done.taken == committed


@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_end_in_an_answer(noise: bytes, greeted: bool) -> None:
    done = converse(FarSide(HELLO * greeted + noise), Committing())
    assert done.why
    assert done.why.isprintable()


def test_records_of_others_are_told() -> None:
    far = FarSide(HELLO + batch(b"a") + b"end 1\n")
    done = converse(far, Committing(("node n7",)))
    assert (done.left, done.why) == (1, "1 records of node n7 lie there, and stay")


def test_garbage_without_end_does_not_fill_the_memory() -> None:
    done = Pulled(Target("n1", "n1"))
    for _ in range(50):
        names = [f"node x{number}" for number in range(1000)]
        done.add(Committed([], 0, [(1, None, "torn")] * 1000, names))
    assert done.refused == 50_000
    assert (len(done.reasons), len(done.foreign)) == (100, 100)


@pytest.fixture
def access(monkeypatch: pytest.MonkeyPatch) -> Access:
    monkeypatch.setattr(pull, "KnownHosts", lambda files: files)
    monkeypatch.setattr(pull, "Keys", lambda key: key)
    return Access("command", (Path("/known"),), parallel=4)


def test_so_many_nodes_are_asked_at_once_and_all_in_the_end(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four at a time meet at a barrier: fewer at once would never pass it, more are counted."""
    together, lock = threading.Barrier(4), threading.Lock()
    now = most = 0

    @contextmanager
    def session(target: Target, *_: Any) -> Iterator[FarSide]:
        nonlocal now, most
        with lock:
            now, most = now + 1, max(most, now + 1)
        together.wait(30)
        with lock:
            now -= 1
        if target.node == "n3":
            raise RemoteError("gone", "look")
        yield FarSide(HELLO + batch(b"a") + b"end 0\n")

    monkeypatch.setattr(pull, "session", session)
    targets = [Target(f"n{number}", "") for number in range(12)]
    done = pull.pull_all(targets, access, Committing())
    assert most == 4
    assert [one.target for one in done] == targets
    assert [(one.target.node, one.why) for one in done if one.why or one.taken != 1] == [("n3", "gone")]


def test_a_store_that_fails_ends_it_all(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first commit fails; sessions that wait are hung up on, and the others never begin."""
    closed = threading.Event()
    begun: list[str] = []

    class Waiting(FarSide):
        def recv(self, most: int) -> bytes:
            assert closed.wait(30)
            return b""

        def close(self) -> None:
            closed.set()

    @contextmanager
    def session(target: Target, *_: Any) -> Iterator[FarSide]:
        begun.append(target.node)
        yield Waiting(b"") if target.node != "n3" else FarSide(HELLO + batch(b"a"))

    def commit(_target: Target, _lines: list[bytes]) -> Committed:
        raise StoreError("the disk is full")

    monkeypatch.setattr(pull, "session", session)
    with pytest.raises(StoreError, match="the disk is full"):
        pull.pull_all([Target(f"n{number}", "") for number in range(12)], access, commit)
    assert len(begun) < 12
