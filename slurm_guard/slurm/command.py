"""Run one of Slurm's programs: argv, a fixed environment, a deadline that holds, and a bounded answer.

A client of a dead controller retries for a long time (9 s, or 60 s without a readable slurm.conf), so the
deadline is ours. The child gets its own process group, which is killed whole.
"""

from __future__ import annotations

import os
import signal
import time

from slurm_guard.core.errors import SlurmError, SlurmUnreachableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import Popen

#: An answer about 10,000 nodes is some 4 MB.
LARGEST = 32 << 20
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
#: After SIGKILL we wait this long for the child; one stuck in the kernel is left behind.
_LAST_WAIT_S = 0.2
_SLICE_S = 0.02

_left_behind: list[Popen[bytes]] = []


class Reply:
    """What a program said: exit status, standard output and standard error."""

    __slots__ = ("output", "problem", "status")

    def __init__(self, status: int, output: bytes, problem: str) -> None:
        self.status = status
        self.output = output
        self.problem = problem


def environment(slurm_conf: str) -> dict[str, str]:
    """All that a Slurm program sees of an environment. Times are UTC, words are English."""
    env = {"PATH": _PATH, "LC_ALL": "C", "TZ": "UTC"}
    if slurm_conf:
        env["SLURM_CONF"] = slurm_conf
    return env


def run(argv: list[str], slurm_conf: str, deadline: float, largest: int = LARGEST) -> Reply:
    """Run a program and return what it said, whatever its exit status.

    Raises:
        SlurmUnreachableError: it is not there, or did not end within `deadline` seconds (it is killed then).
        SlurmError: it said more than `largest` bytes.
    """
    end = time.monotonic() + deadline
    process = _start(argv, slurm_conf)
    try:
        streams = _read(process, end, largest)
        status = _wait(process, end) if streams is not None else None
    finally:
        _end(process)
    name = os.path.basename(argv[0])
    if streams is None:
        raise SlurmError(f"{name} said more than {largest} bytes; expected a shorter answer")
    if status is None:
        raise SlurmUnreachableError(f"{name} gave no answer within {deadline:g} s; is slurmctld up?")
    return Reply(status, streams[0], streams[1].decode("utf-8", "replace").strip())


def _start(argv: list[str], slurm_conf: str) -> Popen[bytes]:
    import subprocess  # dear to import, and a healthy hook never gets here

    _left_behind[:] = [child for child in _left_behind if child.poll() is None]
    if not os.path.isabs(argv[0]):
        raise SlurmError(f"{argv[0]!r} is not an absolute path; set slurm.programs in the configuration")
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(slurm_conf),
            cwd="/",
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise SlurmUnreachableError(
            f"cannot run {argv[0]}: {error}; set slurm.programs in the configuration"
        ) from None


def _read(process: Popen[bytes], end: float, largest: int) -> tuple[bytes, bytes] | None:
    """Both outputs, until their ends, the program's end, or the deadline; None if they grow too large."""
    import select

    poller = select.poll()
    parts: dict[int, list[bytes]] = {}
    order = [stream.fileno() for stream in (process.stdout, process.stderr) if stream is not None]
    for fd in order:
        parts[fd] = []
        poller.register(fd, select.POLLIN | select.POLLHUP)
    open_ones, size = set(order), 0
    while open_ones and time.monotonic() < end:
        ready = poller.poll(_SLICE_S * 1000)
        if not ready and process.poll() is not None:
            break  # it ended, but a child of its own still holds the pipe
        for fd, _ in ready:
            chunk = os.read(fd, 1 << 16)
            parts[fd].append(chunk)
            size += len(chunk)
            if not chunk:
                poller.unregister(fd)
                open_ones.discard(fd)
        if size > largest:
            return None
    return b"".join(parts[order[0]]), b"".join(parts[order[1]])


def _wait(process: Popen[bytes], end: float) -> int | None:
    """The exit status, or None if the program is still there at the deadline."""
    while process.poll() is None:
        left = end - time.monotonic()
        if left <= 0:
            return None
        time.sleep(min(left, 0.001))
    return process.returncode


def _end(process: Popen[bytes]) -> None:
    """Kill the whole process group, also what an ended program left in it; wait for nothing that stays."""
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    if _wait(process, time.monotonic() + _LAST_WAIT_S) is None:
        _left_behind.append(process)
