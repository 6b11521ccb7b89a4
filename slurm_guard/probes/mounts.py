"""Expected mounts: in the mount table, and do they answer? Each is asked in a step that may hang.

The table is /proc/self/mountinfo, see proc_pid_mountinfo(5). Nothing that is not expected is touched, and
nothing is ever created.
"""

from __future__ import annotations

import errno
import os
import re

from slurm_guard.core.errors import ProbeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from slurm_guard.core.outcome import Facts
    from slurm_guard.core.paths import Places

GROUP = "mounts"
TABLE = "proc/self/mountinfo"
LARGEST_TABLE = 16 << 20

#: File systems that other nodes have as well: when they fail, the cause is seldom this node.
SHARED_TYPES = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "wekafs", "daos", "panfs"),
        *("pvfs2", "orangefs", "afs", "glusterfs", "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse"),
        *("fuse.juicefs", "fuse.daos", "fuse.dfuse", "fuse.seaweedfs", "fuse.s3fs", "fuse.sshfs"),
    )
)

_OCTAL = re.compile(r"\\([01][0-7]{2})")


class Mount:
    """One line of the mount table, its escapes decoded."""

    __slots__ = ("id", "options", "parent", "path", "source", "super_options", "type")

    def __init__(self, own: int, parent: int, path: str, options: list[str]) -> None:
        self.id = own
        self.parent = parent
        self.path = path
        self.options = options
        self.type = self.source = ""
        self.super_options: list[str] = []


def stream(places: Places, request: Facts) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """A key and a step for each path of `request.mounts`, then `request.filesystems`, without those to skip.

    A step gives `key`, `path`, `mounted`, `type`, `options`, `super_options`, `source`, `expected` (False for
    one of which only the space matters), `automount` (nothing but the automounter is there), `answered`,
    `error` (errno's name, or ""), `hung` (False), `space`: {`size`, `free`, `inodes`, `inodes_free`} in
    bytes and counts that a user may take, or None.

    Raises ProbeError if the mount table cannot be read.
    """
    table = read_table(places)
    skip = set(request.get("skip") or ())
    mounts = [_path(mount) for mount in request.get("mounts") or ()]
    for path in dict.fromkeys([*mounts, *(request.get("filesystems") or ())]):
        if path not in skip:
            yield path, _step(places, table, path, path in mounts)


def read_table(places: Places) -> list[Mount]:
    """All mounts, in the order of the table."""
    path = places.below(TABLE)
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST_TABLE)
    except OSError as error:
        raise ProbeError(f"the mount table {path} cannot be read: {error.strerror}") from error
    lines = content.decode("utf-8", "replace").split("\n")
    table = [mount for mount in map(parse, lines) if mount is not None]
    if not table:
        raise ProbeError(f"the mount table {path} has no line in the form of mountinfo")
    return table


def parse(line: str) -> Mount | None:
    """One line: `id parent major:minor root path options [fields…] - type source super-options`, or None."""
    front, separator, back = line.partition(" - ")
    fields, rest = front.split(" "), back.split(" ")
    if not separator or len(fields) < 6 or len(rest) < 2:
        return None
    if not (fields[0].isdecimal() and fields[1].isdecimal() and fields[4].startswith("/")):
        return None
    mount = Mount(int(fields[0][:20]), int(fields[1][:20]), unescape(fields[4]), fields[5].split(","))
    mount.type, mount.source = rest[0], unescape(rest[1])
    mount.super_options = unescape(" ".join(rest[2:])).split(",") if rest[2:] else []
    return mount


def unescape(text: str) -> str:
    """`data\\040sets` → `data sets`: the kernel writes blanks and backslashes as three octal digits."""
    if "\\" not in text:
        return text
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def find(table: list[Mount], path: str) -> Mount | None:
    """The mount that somebody who opens a path meets: the last one there, unless it is covered."""
    at = max((n for n, mount in enumerate(table) if mount.path == path), default=None)
    return None if at is None or _is_covered(table, at) else table[at]


def _is_covered(table: list[Mount], at: int) -> bool:
    """True if a later mount higher up hides this one, as `/data` mounted after `/data/sets` does."""
    mount = table[at]
    later = [other for other in table[at + 1 :] if _is_above(other.path, mount.path)]
    if not later:
        return False
    parents = {other.id: other.parent for other in table}
    chain: set[int] = set()
    step = mount.parent
    while step in parents and step not in chain:
        chain.add(step)
        step = parents[step]
    return any(other.id not in chain for other in later)


def _is_above(path: str, other: str) -> bool:
    return other != path and other.startswith(path if path.endswith("/") else f"{path}/")


def _path(mount: Any) -> str:
    return mount["path"] if isinstance(mount, dict) else str(mount)


def _step(places: Places, table: list[Mount], path: str, expected: bool) -> Callable[[], dict[str, Any]]:
    return lambda: _examine(places, table, path, expected)


def _examine(places: Places, table: list[Mount], path: str, expected: bool) -> dict[str, Any]:
    mount = find(table, os.path.normpath(path))
    facts: dict[str, Any] = {"key": path, "path": path, "expected": expected, "hung": False}
    answer: dict[str, Any] = {"answered": False, "error": "", "space": None}
    if mount is not None:
        answer = _ask(places.below(path))
        if mount.type == "autofs":
            # The question has made the automounter mount it, or it cannot: the table now says which.
            mount = find(read_table(places), os.path.normpath(path)) or mount
    facts.update(mounted=mount is not None, automount=mount is not None and mount.type == "autofs")
    for name in ("type", "options", "super_options", "source"):
        facts[name] = getattr(mount, name, None)
    return {**facts, **answer}


def _ask(path: str) -> dict[str, Any]:
    """Ask the file system itself: its root folder (NFS tells a stale handle there), then its space."""
    try:
        os.stat(path)
        answer = os.statvfs(path)
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, str(error.errno))
        return {"answered": True, "error": name, "space": None}
    block = answer.f_frsize or answer.f_bsize
    space = {
        "size": block * answer.f_blocks,
        "free": block * answer.f_bavail,
        "inodes": answer.f_files,
        "inodes_free": answer.f_favail,
    }
    return {"answered": True, "error": "", "space": space}
