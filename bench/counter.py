"""Runs one command many times and counts what it and all its descendants cost, detached ones too.

    python -I -S bench/counter.py REPETITIONS < JSON {"argv": […], "env": {…}, "orphans": true}

Started as a small process of its own: a child's peak memory starts at its parent's, so a large parent would
be measured instead. As the "child subreaper" it inherits every orphan, waits for all of them, and the kernel
then tells their CPU time in one figure. Prints one JSON line per repetition: exit status, seconds until the
command itself ended, seconds until its last descendant ended, CPU seconds, peak RSS of the largest process in
KiB.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sys
import time

PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Let orphaned descendants be reparented to this process instead of to init."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def wait_for(pid: int, orphans: bool) -> tuple[int, float]:
    """Reap `pid`, and with `orphans` everything else; returns the status of `pid` and when it ended."""
    status, ended = -1, 0.0
    while orphans or not ended:
        try:
            reaped, value = os.wait()
        except ChildProcessError:
            return status, ended
        if reaped == pid:
            status, ended = os.waitstatus_to_exitcode(value), time.monotonic()
    return status, ended


def once(argv: list[str], env: dict[str, str], orphans: bool) -> dict[str, float]:
    """Run the command in a child of this process and count it; returns one result."""
    null = os.open(os.devnull, os.O_RDWR)
    started = time.monotonic()
    actions = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)]
    pid = os.posix_spawn(argv[0], argv, env, file_actions=actions, setsid=True)
    status, ended = wait_for(pid, orphans)
    last = time.monotonic()
    os.close(null)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "status": status,
        "wall": ended - started,
        "wall_all": last - started,
        "cpu": usage.ru_utime + usage.ru_stime,
        "rss_kib": usage.ru_maxrss,
    }


def in_fresh_process(argv: list[str], env: dict[str, str], orphans: bool) -> str:
    """RUSAGE_CHILDREN only ever grows, so each repetition is counted by a fork of its own."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        become_subreaper()
        os.write(writer, json.dumps(once(argv, env, orphans)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        line = pipe.read()
    os.waitpid(pid, 0)
    return line.decode()


def main() -> None:
    """Read the command, run it as often as asked, print the results."""
    task = json.load(sys.stdin)
    for _ in range(int(sys.argv[1])):
        print(in_fresh_process(task["argv"], task["env"], task["orphans"]), flush=True)


main()
