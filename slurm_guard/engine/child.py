"""Children of a hook: quiet, bounded, and left behind rather than waited for.

slurmd waits for the end of the hook's output pipe and kills the hook's process group when it ends, so every
child lets go of both: its descriptors point to /dev/null, and a detached one is in a session of its own.
"""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SIGKILL = 9
_MOST_DESCRIPTORS = 1024
_MOST_WORDS = 400
_DONE = b"\0"


def go_quiet(keep: int = -1) -> None:
    """Point descriptors 0-2 to /dev/null and close all others but `keep`."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    if keep > 2:
        os.closerange(3, keep)
        os.closerange(keep + 1, _MOST_DESCRIPTORS)
    else:
        os.closerange(3, _MOST_DESCRIPTORS)


def spawn(work: Callable[[int], None]) -> tuple[int, int]:
    """Fork a quiet child that runs `work(write_end)`; its pid and the read end of its pipe.

    Whatever the child raises ends it with status 1; it never returns into the caller's code.
    """
    read_end, write_end = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(read_end)
        os.close(write_end)
        raise
    if pid == 0:
        status = 1
        try:
            go_quiet(keep=write_end)
            work(write_end)
            status = 0
        finally:
            os._exit(status)
    os.close(write_end)
    return pid, read_end


def send(write_end: int, data: bytes) -> None:
    """Write all of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(write_end, view) :]


def bounded(work: Callable[[], None], seconds: float) -> str:
    """Run `work` in a child with a deadline: `done`, `failed: why` or `hung`.

    For writes: a sick disk hangs fsync, where neither a thread nor a signal helps.
    """
    return attempt(work, seconds)[0]


def attempt(work: Callable[[], None], seconds: float) -> tuple[str, int | None]:
    """As `bounded`, with the pid of the child if it outlived SIGKILL and was left behind."""

    def report(write_end: int) -> None:
        try:
            work()
        except Exception as error:
            send(write_end, f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:_MOST_WORDS])
            raise
        send(write_end, _DONE)

    try:
        pid, read_end = spawn(report)
    except OSError as error:  # no process to be had
        return f"failed: {type(error).__name__}: {error}", None
    try:
        readable = select.select([read_end], [], [], seconds)[0]
        answer = os.read(read_end, _MOST_WORDS) if readable else None
    finally:
        os.close(read_end)
    if answer is None:
        return "hung", pid if kill_and_leave(pid) else None
    reap(pid)
    return "done" if answer == _DONE else f"failed: {answer.decode('utf-8', 'replace') or 'no word'}", None


def kill_and_leave(pid: int, patience_s: float = 0.1) -> bool:
    """SIGKILL a child and wait a moment; True if it outlived that (a process in state D)."""
    try:
        os.kill(pid, SIGKILL)
    except ProcessLookupError:
        return False
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return False
        time.sleep(0.005)
    return True


def reap(pid: int, patience_s: float = 1.0) -> int | None:
    """The wait status of a child that has let go of its pipe; None if it outlived SIGKILL.

    A process whose end hangs in the kernel (a driver that is asked to close its device) closes its pipe and
    is not gone: nobody may wait for it.
    """
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        time.sleep(0.001)
    return None if kill_and_leave(pid) else SIGKILL


def ended(status: int | None) -> str:
    """How a child ended, of its wait status, in words for people."""
    if status is None:
        return "and its end hangs in the kernel"
    return f"signal {status & 127}" if status & 127 else f"status {status >> 8}"


def lives(pid: int, started: int) -> bool:
    """True while a process that was left behind is there: a zombie hangs no more, whoever should reap it."""
    fields = _stat_fields(pid)
    return len(fields) > 19 and int(fields[19]) == started and fields[0] not in ("Z", "X")


def detach(work: Callable[[], None]) -> None:
    """Run `work` in a process that outlives the hook: what it must do is on disk before this is called."""
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    try:
        os.setsid()
        go_quiet()
        if os.fork() == 0:
            work()
    finally:
        os._exit(0)


def start_time(pid: int) -> int | None:
    """The start time of a process in clock ticks after boot, None if there is no such process.

    From the real /proc: pid and start time together name a process for good.
    """
    fields = _stat_fields(pid)
    return int(fields[19]) if len(fields) > 19 else None


def describe(pid: int) -> tuple[str, str]:
    """State letter and kernel wait channel of a process; empty strings where it is gone."""
    fields = _stat_fields(pid)
    try:
        with open(f"/proc/{pid}/wchan", encoding="ascii", errors="replace") as file:
            channel = file.read(80)
    except OSError:
        channel = ""
    return (fields[0] if fields else ""), channel.strip("0\n ")


def _stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the command name, which may hold spaces and brackets."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read(2048).rpartition(")")[2].split()
    except OSError:
        return []
