"""Fetch the spools of many nodes: a bounded number at once, each batch acknowledged after its commit."""

from __future__ import annotations

import json
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from slurm_guard.core.errors import RemoteError
from slurm_guard.engine.batch import MOST_BYTES, MOST_LINES
from slurm_guard.engine.sending import GREETING, VERSION
from slurm_guard.remote.keys import Keys
from slurm_guard.remote.known_hosts import KnownHosts
from slurm_guard.remote.ssh import Wire, session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paramiko import Channel

    from slurm_guard.remote.target import Access, Target

    #: Commits a node's lines, and says what became of them; whoever calls it may be any thread.
    Commit = Callable[[Target, list[bytes]], "Committed"]

_LONGEST_LINE = 512
#: A node that sends garbage without end must not fill our memory with the reasons.
_MOST_TOLD = 100
#: What follows its record is a line's end.
_LARGEST_BODY = MOST_BYTES + MOST_LINES
_COLLECT_AGAIN = "collect again: nothing is lost"


class Committed(NamedTuple):
    """What became of some lines: run ids that are in the store (`known` of them already were), those that can
    never be, as (line from 1, run id or None, why), and the names of other nodes whose records there were.
    """

    acknowledged: list[str]
    known: int
    refused: list[tuple[int, str | None, str]]
    foreign: list[str]

    def as_answer(self) -> bytes:
        """The line that the node gets."""
        refused = [{"line": line, "run_id": run_id, "why": why} for line, run_id, why in self.refused]
        answer = {"acknowledged": self.acknowledged, "refused": refused}
        return json.dumps(answer, separators=(",", ":")).encode() + b"\n"


@dataclass
class Pulled:
    """What came from one node. `why` says what kept it from being all, empty if it was; `left` are records
    that stay there though they were offered; `refused` counts those set aside there, and `reasons` lists the
    first of them: (run id or None, why).
    """

    target: Target
    taken: int = 0
    known: int = 0
    left: int = 0
    refused: int = 0
    reasons: list[tuple[str | None, str]] = field(default_factory=list)
    foreign: set[str] = field(default_factory=set)
    why: str = ""
    remedy: str = ""
    detail: str = ""

    def add(self, done: Committed) -> None:
        """Count a batch in."""
        self.taken += len(done.acknowledged) - done.known
        self.known += done.known
        self.refused += len(done.refused)
        room = _MOST_TOLD - len(self.reasons)
        self.reasons += [(run_id, why) for _, run_id, why in done.refused[:room]]
        self.foreign.update(done.foreign[: _MOST_TOLD - len(self.foreign)])

    def fail(self, error: RemoteError) -> None:
        """Keep the first reason why not everything came."""
        if not self.why:
            self.why, self.remedy, self.detail = error.why, error.remedy, error.detail


def pull_all(targets: Sequence[Target], access: Access, commit: Commit) -> list[Pulled]:
    """Fetch from all targets; one answer for each, in their order.

    Raises SetupError if there are no host keys or no key of ours, and whatever `commit` raises: then nothing
    more is fetched, and what was not acknowledged is still on the nodes.
    """
    this = _Pull(access, commit)
    with ThreadPoolExecutor(max(1, min(access.parallel, len(targets))), "collect") as threads:
        waiting = [threads.submit(this.one, target) for target in targets]
        try:
            wait(waiting, return_when=FIRST_EXCEPTION)
        finally:
            for one in waiting:
                one.cancel()
            this.hang_up()
    failed = next((one for one in waiting if not one.cancelled() and one.exception()), None)
    return [one.result() for one in ([failed] if failed else waiting)]


class _Pull:
    """What all nodes of one `pull_all` share; `channels` are the open ones."""

    def __init__(self, access: Access, commit: Commit) -> None:
        self.access, self.commit = access, commit
        self.known, self.keys = KnownHosts(access.known_hosts), Keys(access.key)
        self.channels: set[Channel] = set()

    def one(self, target: Target) -> Pulled:
        """Fetch one node's spool. Never raises for what network and node do."""
        done = Pulled(target)
        try:
            with session(target, self.access, self.known, self.keys) as channel:
                self.channels.add(channel)
                try:
                    _converse(Wire(channel, self.access.transfer_s), target, self.commit, done)
                finally:
                    self.channels.discard(channel)
        except RemoteError as error:
            done.fail(error)
        return done

    def hang_up(self) -> None:
        """End what is still going on: nobody waits for it."""
        for channel in tuple(self.channels):
            with suppress(Exception):  # a line that is gone already must not hide why all of this ends
                channel.close()


def _converse(wire: Wire, target: Target, commit: Commit, done: Pulled) -> None:
    _greeted(wire)
    while True:
        kind, *numbers = _words(wire)
        if kind == "end" and len(numbers) == 1:
            done.left = numbers[0]
            break
        if kind != "batch" or len(numbers) != 2:
            raise _odd(kind)
        committed = commit(target, _lines(wire, *numbers))
        done.add(committed)
        wire.send(committed.as_answer())
    if done.foreign:
        names = ", ".join(sorted(done.foreign)[:3])
        remedy = f"is {target.address} that node's address? Look at [collect.hosts] and the node's node.json"
        done.fail(RemoteError(f"{done.left} records of {names} lie there, and stay", remedy))


def _greeted(wire: Wire) -> None:
    """Raise RemoteError unless the other side is ours and speaks a version that we know."""
    line = wire.line(_LONGEST_LINE).decode("utf-8", "replace")
    if line.startswith("error "):
        raise RemoteError(_plain(line[6:]), _COLLECT_AGAIN)
    name, _, rest = line.partition(" ")
    try:
        version = json.loads(rest)["v"] if name == GREETING else None
    except (ValueError, LookupError, TypeError, RecursionError):
        version = None
    if version is None:
        said = _plain(line) or wire.complaint() or "nothing"
        remedy = (
            "is slurm_guard installed there as here? Else set `command` in [collect]; a shell's start-up "
            "file must print nothing"
        )
        raise RemoteError(f"the command there says {said[:120]!r}", remedy)
    if version != VERSION:
        raise RemoteError(f"it speaks version {str(version)[:20]}, not {VERSION}", "upgrade the older side")


def _words(wire: Wire) -> tuple[str, *tuple[int, ...]]:
    """A line of the protocol: a word and numbers. Raises RemoteError for any other."""
    line = wire.line(_LONGEST_LINE).decode("utf-8", "replace")
    if not line:
        raise RemoteError("the connection broke", _COLLECT_AGAIN)
    if line.startswith("error "):
        raise RemoteError(_plain(line[6:]), _COLLECT_AGAIN)
    word, *rest = line.split(" ")
    if not all(one.isascii() and one.isdigit() and len(one) < 10 for one in rest):
        raise _odd(line)
    return word, *map(int, rest)


def _lines(wire: Wire, count: int, size: int) -> list[bytes]:
    """A batch. Raises RemoteError unless it holds what was announced, within the bounds."""
    if not 0 < count <= MOST_LINES or not count <= size <= _LARGEST_BODY:
        raise RemoteError(f"it sends {count} records of {size} bytes at once", "is slurm_guard there newer?")
    body = wire.body(size)
    if len(body) < size:
        raise RemoteError("the connection broke", _COLLECT_AGAIN)
    lines = body.split(b"\n")
    if lines.pop() or len(lines) != count:
        raise _odd("a batch that does not hold what it announced")
    return lines


def _odd(what: str) -> RemoteError:
    return RemoteError(f"it says {_plain(what)[:120]!r}", "expected the lines of docs/collect.md")


def _plain(text: str) -> str:
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
