"""Files that survive kill -9 at any instant, and locks that an abandoned child cannot keep."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import time

from slurm_guard.core.outcome import Facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

#: A file of ours that is larger than this was not written by us.
LARGEST = 8 << 20


def make_folder(path: str) -> None:
    """Create a folder of ours and what is missing on the way to it, all of it closed to everybody else."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    if above != path:
        make_folder(above)  # os.makedirs would leave these to the umask
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)


def write_atomic(path: str, data: bytes, mode: int = 0o600) -> None:
    """Replace a file as a whole: readers see the old content or the new, never a part.

    The temporary file is in the same folder, is never followed if it is a symlink, and is removed when the
    write fails (disk full), so that nothing is left behind.
    """
    temporary = f"{path}.{os.getpid()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    descriptor = os.open(temporary, flags, mode)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(os.path.dirname(path))


def regular_file(path: str, flags: int) -> int:
    """An opener for `open` that takes regular files alone: a pipe would keep its reader waiting for ever.

    Raises OSError for anything else.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "not a regular file", path)


def sync_folder(path: str) -> None:
    """Make renames and removals in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: str, content: Any) -> None:
    """Write a JSON file of ours atomically."""
    write_atomic(path, json.dumps(content, separators=(",", ":")).encode())


def read_json(path: str) -> Any:
    """A JSON object of ours as `Facts`, or None where it is absent, torn, too large or not an object."""
    try:
        # Where a pipe lies in the file's place, nobody waits for its other end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            content = json.loads(file.read(LARGEST), object_hook=Facts)
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def remove(path: str) -> None:
    """Remove a file that may already be gone."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def try_lock(path: str) -> int | None:
    """Take a POSIX record lock; its open descriptor, or None while another process holds it.

    Record locks belong to the process, so (unlike flock) a child left behind never keeps one. Closing any
    descriptor of the same file releases it: keep this one open. Raises OSError where there can be no lock (a
    read-only folder, a file system without locks).
    """
    make_folder(os.path.dirname(path))
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return None
        raise
    return descriptor


@contextlib.contextmanager
def locked(path: str, patience_s: float = 0.5, pause_s: float = 0.005) -> Iterator[bool]:
    """Hold a lock, for a few milliseconds mostly; yields False if it could not be had in time.

    Where there can be no lock file at all (a read-only run folder), there is nobody to wait for: a lost
    update is the lesser evil.
    """
    end, impossible, descriptor = time.monotonic() + patience_s, False, None
    try:
        descriptor = try_lock(path)
        while descriptor is None and time.monotonic() < end:
            time.sleep(pause_s)
            descriptor = try_lock(path)
    except OSError:
        impossible = True
    try:
        yield impossible or descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)
