"""The site's own health program, run after ours: Slurm's HealthCheckProgram takes one program only.

The plan's `chain` names it, or node.json's, which wins: `{"healthcheck": [PROGRAM, …], "seconds": 20}`.
It has what slurmd would give it: our environment, our output, and a process group that ends with it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time

from slurm_guard.core.paths import written_by_others
from slurm_guard.engine import child, syslog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.paths import Places
    from slurm_guard.core.plan import Plan

#: The shim hands on what is above: the highest code of a shell for a signal is 192.
HANDED_ON = 192
MOST_CODE = 63
SECONDS = 20.0
LONGEST_S = 45.0
#: With less than this left after our own run, the program is not started.
LEAST_S = 1.0
_PATIENCE_S = 0.5


def wanted(places: Places, plan: Plan) -> dict[str, Any]:
    """What the supervisor is to run: `{"argv", "seconds"}`, `{"problem"}`, or nothing."""
    own = "chain" in places.node
    found = places.node["chain"] if own else plan.chain
    if not found:
        return {}
    try:
        argv, seconds = found["healthcheck"], float(found.get("seconds", SECONDS))
        if not isinstance(argv, list) or not argv or not all(isinstance(one, str) for one in argv):
            raise TypeError
    except (AttributeError, LookupError, TypeError, ValueError):
        where = places.node_file if own else places.plan
        return {"problem": f"{where}: chain: expected a list of words in `healthcheck` and `seconds`"}
    return {"argv": argv, "seconds": min(max(seconds, LEAST_S), LONGEST_S)}


def run(chained: dict[str, Any], places: Places, ends: float) -> int:
    """Run the program until `ends` (monotonic seconds) at most; the exit code for the shim.

    0 if it ended with 0 or could not be run, which is said in the system log, else `HANDED_ON` and its own.
    """
    argv = chained.get("argv") or [""]
    seconds = min(chained.get("seconds", SECONDS), ends - time.monotonic())
    problem = chained.get("problem") or unfit(argv[0])
    if not problem and seconds < LEAST_S:
        problem = f"{argv[0]}: no time is left for it after our own run"
    if problem:
        _say(places, f"{problem}: the chained program was not run")
        return 0
    try:
        status = _execute(argv, seconds)
    except OSError as error:
        _say(places, f"{argv[0]}: {error.strerror}: the chained program was not run")
        return 0
    return _code(status, argv[0], seconds, places)


def _code(status: int | None, program: str, seconds: float, places: Places) -> int:
    if status == 0:
        return 0
    if status is None:
        code, how = 1, f"took longer than {seconds:.0f} s and was ended"
    else:
        code, how = os.waitstatus_to_exitcode(status), f"ended with {child.ended(status)}"
    _say(places, f"the chained {program} {how}")
    if not 0 < code <= MOST_CODE or status is None:
        with contextlib.suppress(OSError):  # slurmd logs the output of a program that fails
            print(f"sguard: {program} {how}", flush=True)
    return HANDED_ON + (code if 0 < code <= MOST_CODE else MOST_CODE)


def unfit(program: str) -> str:
    """Why root should not run a file; empty if it may. As with the plan, only its owners may change it."""
    if not program.startswith("/"):
        return f"{program!r} is no absolute path"
    try:
        status = os.stat(program)
    except OSError as error:
        return f"{program}: {error.strerror}"
    if not stat.S_ISREG(status.st_mode) or not os.access(program, os.X_OK):
        return f"{program} is no file that can be executed"
    others = written_by_others(status)
    return f"{program} can be changed by others than root: it {others}" if others else ""


def _execute(argv: list[str], seconds: float) -> int | None:
    """The wait status of the program; None if its time was up.

    It gets a group of its own, so that nothing of a pipeline stays behind; whoever ends us ends that too.
    """
    import signal  # costs what no healthy run without a chain should pay

    started: list[int] = []

    def end_both(number: int, _frame: Any) -> None:
        _end_group(started, signal.SIGKILL)
        os._exit(128 + number)

    before = signal.signal(signal.SIGTERM, end_both)
    try:
        ignored = (signal.SIGPIPE, signal.SIGXFSZ)  # by Python
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            started.append(
                os.posix_spawn(argv[0], argv, os.environ, setpgroup=0, setsigmask=(), setsigdef=ignored)
            )
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        status = _await(started[0], seconds)
        if status is None:
            _end_group(started, signal.SIGTERM)
            _await(started[0], _PATIENCE_S)
        _end_group(started, signal.SIGKILL)
        if status is None:
            child.kill_and_leave(started[0])
        return status
    finally:
        signal.signal(signal.SIGTERM, before)


def _await(pid: int, seconds: float) -> int | None:
    """The wait status of a child, None if it still runs after so many seconds."""
    end, pause = time.monotonic() + seconds, 0.002
    while True:
        with contextlib.suppress(ChildProcessError):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return status
        if time.monotonic() >= end:
            return None
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)


def _end_group(started: list[int], number: int) -> None:
    for pid in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, number)


def _say(places: Places, text: str) -> None:
    syslog.say(places.syslog, f"healthcheck: {text}", syslog.WARNING)
