"""Read facts: each group of probes in a forked child, none past the deadline, a hang told from an error.

The child streams one JSON line per step, so that the parent knows what it was busy with when it hung:
`[what, probe, key, payload]`, where what is `start`, `facts`, `item`, `end` or `error`.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import time

from slurm_guard.core.outcome import Facts
from slurm_guard.engine import child
from slurm_guard.engine.reading import Hang, Reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.paths import Places

GROUPS = {"nvml": "nvml", "mounts": "mounts"}
_MOST_BYTES = 16 << 20
_USED_UP = "not read: the time for this run was used up"
#: How long a child that has told everything may take to end.
_END_S = 0.2


def group_of(probe: str) -> str:
    """The group whose child reads a probe; `text` unless the probe can block."""
    return GROUPS.get(probe, "text")


class _GroupRun:
    """One group's child: which probes remain, what it is busy with, and since when."""

    def __init__(self, probes: list[str], patience_s: float) -> None:
        self.remaining = probes
        self.patience_s = patience_s
        self.busy: tuple[str, str] | None = None
        self.since = 0.0
        self.pid = 0
        self.pipe = -1
        self.buffer = b""
        self.size = 0

    def start(self, places: Places, request: Facts) -> None:
        probes = list(self.remaining)
        self.pid, self.pipe = child.spawn(lambda end: _read_all(end, probes, places, request))
        self.since, self.busy, self.buffer, self.size = time.monotonic(), None, b"", 0

    @property
    def at_work(self) -> str:
        """The remaining probe that the child was busy with, as far as it told."""
        return self.busy[0] if self.busy and self.busy[0] in self.remaining else self.remaining[0]


def read(
    probes: list[str],
    places: Places,
    request: Facts,
    *,
    deadline_s: float,
    patience_s: float,
    hung: list[Hang] | None = None,
) -> Reading:
    """Read the facts of some probes, each group at the same time as the others.

    `patience_s` is how long one mount may take; `hung` are hangs of earlier runs whose child still lives:
    those sources are not touched again.
    """
    reading = Reading()
    request.setdefault("skip", [])
    for still in hung or []:
        _note_hang(reading, still, request)
    groups: dict[str, list[str]] = {}
    for probe in probes:
        if probe not in reading.problems:
            groups.setdefault(group_of(probe), []).append(probe)
    runs = [
        _GroupRun(names, patience_s if group == "mounts" else deadline_s) for group, names in groups.items()
    ]
    _gather(runs, reading, places, request, time.monotonic() + deadline_s)
    return reading


def _gather(runs: list[_GroupRun], reading: Reading, places: Places, request: Facts, end: float) -> None:
    poll = select.poll()
    by_pipe: dict[int, _GroupRun] = {}
    for run in runs:
        _start(run, reading, poll, by_pipe, places, request)
    while by_pipe:
        now = time.monotonic()
        next_stall = min(run.since + run.patience_s for run in by_pipe.values())
        ready = poll.poll(max(0.0, min(end, next_stall) - now) * 1000)
        for pipe, _ in ready:
            if not _receive(by_pipe[pipe], reading):
                _finish(by_pipe[pipe], reading, poll, by_pipe, places, request)
        now = time.monotonic()
        for run in [r for r in by_pipe.values() if now >= min(end, r.since + r.patience_s)]:
            _give_up(run, reading, poll, by_pipe, places, request, past_end=now >= end)


def _start(
    run: _GroupRun, reading: Reading, poll: Any, by_pipe: dict[int, _GroupRun], places: Places, request: Facts
) -> None:
    try:
        run.start(places, request)
    except (
        OSError
    ) as error:  # no process or no descriptor to be had: the node's trouble, and no verdict on it
        _leave_out(run, reading, f"not read: {error.strerror or error}")
        return
    poll.register(run.pipe, select.POLLIN | select.POLLHUP)
    by_pipe[run.pipe] = run


def _close(run: _GroupRun, poll: Any, by_pipe: dict[int, _GroupRun]) -> None:
    poll.unregister(run.pipe)
    del by_pipe[run.pipe]
    os.close(run.pipe)


def _receive(run: _GroupRun, reading: Reading) -> bool:
    """Take what the child has written; False at its end."""
    data = os.read(run.pipe, 1 << 18)
    run.size += len(data)
    if not data:
        return False
    if run.size > _MOST_BYTES:
        return _cut_off(run, reading, f"told more than {_MOST_BYTES} bytes")
    *lines, run.buffer = (run.buffer + data).split(b"\n")
    try:
        for line in lines:
            _take(run, reading, *json.loads(line, object_hook=Facts))
    except (ValueError, TypeError, AttributeError, RecursionError):
        # A vendor's library wrote into descriptors that are not its own.
        return _cut_off(run, reading, "wrote garbage")
    run.since = time.monotonic()
    if not run.remaining:
        run.patience_s = _END_S  # all is told: if somebody keeps the pipe open, that is not our concern
    return True


def _cut_off(run: _GroupRun, reading: Reading, what: str) -> bool:
    """End a child of which nothing more is believed; False, as at its own end."""
    if run.remaining:
        reading.problems[run.at_work] = f"the probe's process {what}"
    os.kill(run.pid, child.SIGKILL)
    return False


def _take(run: _GroupRun, reading: Reading, what: str, probe: str, key: str, payload: Any) -> None:
    run.busy = (probe, key) if what == "start" else (probe, "") if what == "item" else None
    if what == "item":
        reading.facts.setdefault(probe, []).append(payload)
    elif what == "facts":
        reading.facts[probe] = payload
    elif what == "error":
        reading.problems[probe] = payload
    if what in ("end", "facts", "error"):
        run.remaining = [name for name in run.remaining if name != probe]
    if what == "end":
        reading.facts.setdefault(probe, [])


def _finish(
    run: _GroupRun, reading: Reading, poll: Any, by_pipe: dict[int, _GroupRun], places: Places, request: Facts
) -> None:
    """The child ended: normally, or by a crash, after which a new child reads the rest."""
    _close(run, poll, by_pipe)
    status = child.reap(run.pid)
    if not run.remaining:
        return
    probe = run.at_work
    if status is None:
        _note_hang(reading, Hang(probe, "", run.pid, confirmed=True), request)
        status = child.SIGKILL
    reading.problems.setdefault(probe, f"the probe's process died ({child.ended(status)})")
    reading.facts.pop(probe, None)
    run.remaining = [name for name in run.remaining if name != probe]
    if run.remaining:
        _start(run, reading, poll, by_pipe, places, request)


def _give_up(
    run: _GroupRun,
    reading: Reading,
    poll: Any,
    by_pipe: dict[int, _GroupRun],
    places: Places,
    request: Facts,
    past_end: bool,
) -> None:
    """The child hangs: kill it, wait a moment, leave it behind, and let a new child do the rest."""
    _close(run, poll, by_pipe)
    if not run.remaining:
        child.kill_and_leave(run.pid)
        return
    probe, key = run.busy or (run.remaining[0], "")
    confirmed = child.kill_and_leave(run.pid)
    # A child that had not come to its first question, or to its next mount, has met no hang: it was late.
    if confirmed or key or (run.busy and probe not in reading.facts):
        _note_hang(reading, Hang(probe, key, run.pid, confirmed), request)
        if not key:
            run.remaining = [name for name in run.remaining if name != probe]
    if run.remaining and not past_end:
        _start(run, reading, poll, by_pipe, places, request)
        return
    _leave_out(run, reading, _USED_UP)


def _leave_out(run: _GroupRun, reading: Reading, why: str) -> None:
    for name in run.remaining:
        left_out = reading.partial if name in reading.facts else reading.problems
        left_out.setdefault(name, why)


def _note_hang(reading: Reading, hang: Hang, request: Facts) -> None:
    reading.hangs.append(hang)
    if hang.key:
        request["skip"] = [*request["skip"], hang.key]
        reading.facts.setdefault(hang.probe, []).append(hang.as_facts())
    else:
        reading.facts.pop(hang.probe, None)
        reading.problems[hang.probe] = "hung"


def _read_all(write_end: int, probes: list[str], places: Places, request: Facts) -> None:
    """In the child: read each probe and stream what it gives."""

    def tell(what: str, probe: str, key: str = "", payload: Any = None) -> None:
        child.send(write_end, json.dumps([what, probe, key, payload], default=str).encode() + b"\n")

    for probe in probes:
        tell("start", probe)
        try:
            module = importlib.import_module(f"slurm_guard.probes.{probe}")
            if hasattr(module, "stream"):
                for key, thunk in module.stream(places, request):
                    tell("start", probe, key)
                    tell("item", probe, key, thunk())
                tell("end", probe)
            else:
                tell("facts", probe, "", module.read(places, request))
        except BrokenPipeError:
            return
        except Exception as error:  # any failure of a probe is a fact about the probe, not about the node
            from slurm_guard.core.errors import in_words

            tell("error", probe, "", in_words(error)[:500])
