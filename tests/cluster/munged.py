"""A real munged with a key of its own, for tests that need no Slurm beside it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minicluster import processes, requirements
from minicluster.daemons import munge_answers

#: munged reads its clock through one of these; a whole number of seconds is added.
SHIFTED_CLOCK = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static time_t shift(void) { const char *by = getenv("CLOCK_SHIFT"); return by ? atol(by) : 0; }
int clock_gettime(clockid_t id, struct timespec *now) {
    int code = syscall(SYS_clock_gettime, id, now);
    if (code == 0 && id == CLOCK_REALTIME) now->tv_sec += shift();
    return code;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


def clock_library(folder: Path) -> Path:
    """A library that, preloaded, adds $CLOCK_SHIFT seconds to a program's clock."""
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(SHIFTED_CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source)], check=True)
    return library


@contextmanager
def munged(
    folder: Path, key: bytes | None = None, environment: dict[str, str] | None = None
) -> Iterator[str]:
    """A running munged; yields its socket's path once it answers. Daemons with one `key` are one realm."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    key_file = folder / "munge.key"
    key_file.touch(mode=0o600)
    key_file.write_bytes(key or os.urandom(1024))
    socket = folder / "munge.sock"
    argv = [requirements.program("munged"), "--foreground", "--force", f"--key-file={key_file}"]
    argv += [f"--{name}-file={folder}/munged.{name}" for name in ("pid", "log", "seed")]
    argv.append(f"--socket={socket}")
    daemon = processes.launch(folder / "process", argv, folder / "out", folder, environment)
    try:
        _wait(daemon, socket, folder)
        yield str(socket)
    finally:
        processes.end([daemon])


def _wait(daemon: processes.Identity, socket: Path, folder: Path) -> None:
    end = time.monotonic() + 60
    while not munge_answers(socket):
        assert processes.is_alive(daemon), (folder / "out").read_text()
        assert time.monotonic() < end, (folder / "out").read_text()
        time.sleep(0.01)
