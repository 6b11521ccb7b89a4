"""The supervisor ends in time whatever its worker does, leaves nothing behind and says what happened."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from slurm_guard.core.paths import Places
from slurm_guard.core.plan import DEADLINES
from slurm_guard.engine import child, hook, settle

from .test_late_actions import a_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def no_process() -> int:
    raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put a worker of one's own in the place of the real one; it is given the end of its pipe."""

    def make(work: Callable[[int], Any], deadline_s: float = 20.0) -> None:
        monkeypatch.setattr(hook, "_work", lambda name, places, end: work(end))
        monkeypatch.setitem(DEADLINES, "prolog", deadline_s)
        monkeypatch.setattr(hook, "_SLACK_S", 0.0)

    return make


def kill_oneself(end: int) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def write_and_stay(text: bytes) -> Callable[[int], None]:
    def work(end: int) -> None:
        child.send(end, text)
        time.sleep(300)

    return work


@pytest.mark.parametrize(
    ("work", "deadline_s", "said"),
    [
        (kill_oneself, 20.0, "died (signal 11)"),
        (lambda end: None, 20.0, "died (status 0)"),
        (lambda end: 1 / 0, 20.0, "died (status 1)"),
        (write_and_stay(b""), 0.1, "took too long and was ended"),
    ],
)
def test_what_became_of_a_worker_without_a_verdict(
    tmp_path: Path, worker: Callable[..., None], work: Callable[[int], None], deadline_s: float, said: str
) -> None:
    worker(work, deadline_s)
    assert hook._run_worker("prolog", Places(str(tmp_path)), {}) == ({}, said)


def test_a_worker_that_says_garbage_is_not_left_running(
    tmp_path: Path, worker: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    spawn = child.spawn

    def noted(work: Callable[[int], None]) -> tuple[int, int]:
        pid, pipe = spawn(work)
        started.append(pid)
        return pid, pipe

    monkeypatch.setattr(child, "spawn", noted)
    worker(write_and_stay(b"no JSON\n"))
    assert hook.main(["prolog", "--root", str(tmp_path)]) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


@pytest.mark.parametrize(("name", "code"), [("prolog", 75), ("epilog", 0), ("healthcheck", 0)])
def test_a_refusal_counts_though_nobody_can_read_its_message(
    tmp_path: Path, worker: Callable[..., None], monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    verdict = json.dumps({"exit": 75, "message": "slurm_guard refuses job 4"}).encode()
    worker(lambda end: child.send(end, verdict + b"\n"))

    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(sys, "stdout", Closed())
    assert hook.main([name, "--root", str(tmp_path)]) == code


def test_without_a_process_to_be_had_nothing_leaks_and_nothing_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    this, said = a_run(tmp_path), []
    this.context.job_id = None
    monkeypatch.setattr(this, "log", lambda text, level=0: said.append(text))
    monkeypatch.setattr(os, "fork", no_process)
    before = os.listdir("/proc/self/fd")
    assert child.bounded(lambda: None, 1.0).startswith("failed: BlockingIOError")
    settle.later(this)
    assert said == [
        "what waits is left to the next run: BlockingIOError: [Errno 11] Resource temporarily unavailable"
    ]
    assert len(os.listdir("/proc/self/fd")) == len(before)
