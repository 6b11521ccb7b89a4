"""What slurmd starts: a supervisor that hardly touches what can block, and a worker that does the run.

Whatever becomes of the worker (a hang, a crash, a kill), the hook ends in time and lets the job run; only a
verdict that the worker has told makes it 75, which the shim turns into the 1 that Slurm takes for a refusal.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import time

from slurm_guard.core.context import HOOKS, Context
from slurm_guard.core.paths import Places
from slurm_guard.core.plan import DEADLINES
from slurm_guard.engine import child, files, syslog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

REFUSE = 75
#: The log of this very system, for what cannot go to the one below a root.
SYSTEM_LOG = "/dev/log"
#: What the supervisor allows the worker beyond the hook's deadline.
_SLACK_S = 0.5
#: The longest deadline a plan may ask for: the shim's own time-out comes 2 s later.
LONGEST_S = {"prolog": 18.0, "epilog": 38.0, "healthcheck": 48.0}


def main(argv: list[str]) -> int:
    """Run one hook: `HOOK [--root DIR]`. Returns 0, 75, or what `chain.run` hands on; never raises."""
    hook, root = _arguments(argv)
    places = Places(root)
    if hook not in HOOKS:
        syslog.say(
            places.syslog,
            f"hook {hook!r} is not one of {', '.join(HOOKS)}: nothing was checked",
            syslog.ERROR,
        )
        return 0
    if root != "/" and not os.path.isdir(root):
        # Never made here: a slip in slurm.conf would fill a disk with records that nobody reads.
        text = f"{hook}: --root {root}: no such folder: nothing was checked"
        syslog.say(SYSTEM_LOG, text, syslog.ERROR)
        with contextlib.suppress(OSError):
            print(f"sguard: {text}", file=sys.stderr, flush=True)
        return 0
    lacking = _lacking(hook)
    if lacking:
        syslog.say(places.syslog, f"{hook}: {lacking}")
    try:
        return _supervise(hook, places)
    except Exception as error:  # law 1: our own trouble never fails a job
        syslog.say(
            places.syslog, f"{hook}: {type(error).__name__}: {error}: the job is let through", syslog.ERROR
        )
        return 0


def _lacking(hook: str) -> str:
    """What of slurmd's environment is not there, as where a person starts the hook; empty if all is."""
    needed = ("SLURMD_NODENAME",) if hook == "healthcheck" else ("SLURMD_NODENAME", "SLURM_JOB_ID")
    missing = [name for name in needed if not os.environ.get(name)]
    if not missing:
        return ""
    name = "" if os.environ.get("SLURMD_NODENAME") else ": its record goes under this host's name"
    return f"{' and '.join(missing)} not set, so not started by slurmd{name}; by hand: `sguard check run`"


def _arguments(argv: list[str]) -> tuple[str, str]:
    hook = argv[0] if argv else ""
    root = argv[argv.index("--root") + 1] if "--root" in argv[:-1] else "/"
    return hook, root


def _supervise(hook: str, places: Places) -> int:
    lock = None
    if hook == "healthcheck":
        lock = _healthcheck_lock(places)
        if lock == -1:
            syslog.say(
                places.syslog, "healthcheck: the one before still runs: this one is left out", syslog.NOTICE
            )
            return 0
    began = time.monotonic()
    chained: dict[str, Any] = {}
    verdict, trouble = _run_worker(hook, places, chained)
    if trouble:
        syslog.say(places.syslog, f"{hook}: the run {trouble}: the job is let through", syslog.ERROR)
    if verdict.get("message"):
        with contextlib.suppress(OSError):  # nobody reads it: the verdict counts all the same
            print(verdict["message"], flush=True)
    if chained:
        from slurm_guard.engine import chain

        return chain.run(chained, places, began + LONGEST_S[hook])
    return REFUSE if verdict.get("exit") == REFUSE and hook == "prolog" else 0


def _run_worker(hook: str, places: Places, chained: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The worker's verdict, or what became of a worker that gave none.

    `chained` is filled with the program that it tells of, whatever becomes of the worker then.
    """
    began = time.monotonic()
    pid, pipe = child.spawn(lambda end: _work(hook, places, end))
    try:
        verdict = _await(pipe, began, hook, chained)
    except TimeoutError:
        outlived = child.kill_and_leave(pid)
        return {}, "hangs in the kernel and was left behind" if outlived else "took too long and was ended"
    except BaseException:
        child.kill_and_leave(pid)
        raise
    finally:
        os.close(pipe)
    status = child.reap(pid)
    return verdict or {}, "" if verdict else f"died ({child.ended(status)})"


def _healthcheck_lock(places: Places) -> int | None:
    """The lock that keeps healthchecks from piling up: -1 if it is held, None where there cannot be one."""
    try:
        descriptor = files.try_lock(places.lock("healthcheck"))
    except OSError:
        return None
    return -1 if descriptor is None else descriptor


def _await(pipe: int, began: float, hook: str, chained: dict[str, Any]) -> dict[str, Any] | None:
    """The worker's verdict; None if it ended without one. It may first tell its plan's deadline and chain.

    Raises TimeoutError at that deadline.
    """
    buffer, deadline_s = b"", DEADLINES[hook]
    while True:
        left = began + deadline_s + _SLACK_S - time.monotonic()
        if left <= 0 or not select.select([pipe], [], [], left)[0]:
            raise TimeoutError
        data = os.read(pipe, 65536)
        if not data:
            return None
        buffer += data
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            message: dict[str, Any] = json.loads(line)
            if "exit" in message:
                return message
            chained.update(message.get("chain") or {})
            deadline_s = min(max(float(message.get("deadline", deadline_s)), 1.0), LONGEST_S[hook])


def _work(hook: str, places: Places, end: int) -> None:
    # Not in the supervisor: node.json may have moved the run folder to where it can hang.
    if any(os.path.exists(switch) for switch in places.kill_switches):
        child.send(end, b'{"exit": 0}\n')
        return
    from slurm_guard.engine import worker

    def tell(message: dict[str, Any]) -> None:
        child.send(end, json.dumps(message).encode() + b"\n")

    try:
        worker.run(hook, places, Context(hook, os.environ), tell)
    except BaseException as error:
        syslog.say(places.syslog, f"{hook}: {_where(error)}: the job is let through", syslog.ERROR)
        raise


def _where(error: BaseException) -> str:
    """An exception in one line: type, text, and the innermost place of ours."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        code = trace.tb_frame.f_code
        place = f"{os.path.basename(code.co_filename)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__}: {error} ({place})"
