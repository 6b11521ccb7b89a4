"""The node's side of `sguard collect`: hand out the spool, and remove what the other side has committed.

Two phases over one channel, batch by batch: the records go out, the collecting host commits them and names
those that it has, and only these are removed. Killed at any moment, on either side, nothing is lost: what was
not removed is sent again, and the store knows it by its run id. docs/collect.md has the lines on the wire.
"""

from __future__ import annotations

import json
import os
import signal

from slurm_guard.core import plan as plans
from slurm_guard.core.errors import RecordError
from slurm_guard.core.paths import Places
from slurm_guard.engine import batch as batches
from slurm_guard.engine import files, set_aside, ship_state, spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

    from slurm_guard.engine.batch import Batch

#: The first word on the wire, and the version of what follows.
GREETING, VERSION = "slurm-guard-spool", 1
#: Another shipment of this node is waited for.
PATIENCE_S = 30.0
#: A step that takes longer (a collecting host that hangs) ends this process, and with it the lock.
STEP_S = 180
LARGEST_ANSWER = 1 << 20


def main(argv: list[str], source: BinaryIO, sink: BinaryIO) -> int:
    """Serve one collecting host; 0 when all was offered, 1 when something was in the way."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # whoever started us may have ignored it
    _step()
    if argv and (len(argv) != 2 or argv[0] != "--root"):
        return _fail(sink, "unknown arguments; expected none, or --root DIR")
    try:
        places = Places(argv[1] if argv else "/")
        with files.locked(places.lock("ship"), PATIENCE_S, 0.1) as alone:
            if not alone:
                return _fail(sink, "another shipment of this node is under way; collect again in a minute")
            return Sending(places, source, sink).run()
    except (BrokenPipeError, ConnectionResetError):
        return 1
    except Exception as error:
        return _fail(sink, f"{type(error).__name__}: {error}")


class Sending:
    """One session: `left` counts records that were offered and neither taken nor refused."""

    def __init__(self, places: Places, source: BinaryIO, sink: BinaryIO) -> None:
        self.places, self.source, self.sink = places, source, sink
        self.node = node_name(places)
        self.limits = plans.load(places.plan, self.node).spool
        self.left = 0

    def run(self) -> int:
        """Offer batch after batch, oldest first."""
        waiting = self._waiting()
        greeting = {"v": VERSION, "node": self.node, "waiting": len(waiting)}
        self._say(f"{GREETING} {json.dumps(greeting)}")
        while waiting:
            batch = batches.take(waiting, batches.MOST_LINES, self._aside)
            if not batch.lines:
                continue
            self._say(f"batch {len(batch.lines)} {len(batch.body)}", batch.body)
            answer = self._answer()
            if answer is None:
                return 1  # the other side is gone: nothing is removed
            self._settle(batch, answer)
        self._say(f"end {self.left}")
        return 0

    def _waiting(self) -> list[str]:
        """The spool's records. Raises OSError where it cannot be listed: that is not an empty one."""
        try:
            os.listdir(self.places.spool)
        except FileNotFoundError:
            return []  # no hook has run yet
        return spool.paths(self.places)

    def _say(self, line: str, body: bytes = b"") -> None:
        _step()
        self.sink.write(f"{line}\n".encode() + body)
        self.sink.flush()

    def _answer(self) -> dict[str, Any] | None:
        """What the other side did with the batch; None if it left without a word."""
        _step()
        line = self.source.readline(LARGEST_ANSWER)
        if not line.endswith(b"\n"):
            return None
        answer = json.loads(line)
        if not isinstance(answer, dict) or not isinstance(answer.get("acknowledged"), list):
            raise RecordError("an answer that is none of this protocol; nothing was removed")
        return answer

    def _settle(self, batch: Batch, answer: dict[str, Any]) -> None:
        for run_id in answer["acknowledged"]:
            path = batch.paths.pop(run_id, None) if isinstance(run_id, str) else None
            if path is not None:
                files.remove(path)
        refused = answer.get("refused")
        for path, why in batch.take_refused(refused if isinstance(refused, list) else []):
            self._aside(path, why)
        self.left += len(batch.paths)

    def _aside(self, path: str, why: str) -> None:
        set_aside.put(self.places, path, why, self.limits)


def node_name(places: Places) -> str:
    """The NodeName: node.json's, else the one that hooks shipped as, else this host's short name."""
    named = places.node.get("node")
    if isinstance(named, str) and named:
        return named
    return ship_state.load(places).node or os.uname().nodename.partition(".")[0]


def _step() -> None:
    """From here on, so many seconds: then SIGALRM ends the process, and nothing is half done."""
    signal.alarm(STEP_S)


def _fail(sink: BinaryIO, why: str) -> int:
    try:
        sink.write(f"error {' '.join(why.split())[:400]}\n".encode("utf-8", "replace"))
        sink.flush()
    except OSError:
        pass
    return 1
