"""mount(2) and umount2(2), and what is mounted: never touching what lies below a mount, which may hang."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from dataclasses import dataclass
from pathlib import Path

from minicluster.errors import MiniclusterError

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT = 1, 2, 4, 32
MNT_DETACH, UMOUNT_NOFOLLOW = 2, 8
FUSE_CONNECTIONS = Path("/sys/fs/fuse/connections")

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Mounted:
    """One line of /proc/self/mountinfo."""

    path: str
    type: str
    device: str  # major:minor
    source: str


def mount(source: str, path: Path, kind: str, flags: int = 0, options: str = "") -> None:
    """Raises MiniclusterError with the kernel's reason."""
    result = _libc.mount(source.encode(), os.fsencode(path), kind.encode(), flags, options.encode())
    if result != 0:
        reason = os.strerror(ctypes.get_errno())
        raise MiniclusterError(f"mount {kind} on {path}: {reason} (a container may lack CAP_SYS_ADMIN)")


def unmount(path: str | Path) -> bool:
    """Detach the topmost mount at `path` at once, even if it hangs or is in use. False if there is none."""
    return int(_libc.umount2(os.fsencode(path), MNT_DETACH | UMOUNT_NOFOLLOW)) == 0


def decode(path: str) -> str:
    """Undo the octal escapes of mountinfo (`\\040` is a space)."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), path)


def mounted_at_or_below(directory: Path) -> list[Mounted]:
    """Everything mounted at or below `directory`, in the kernel's order (later ones lie on top)."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        lines = file.read().splitlines()
    found = []
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split()
        path = decode(fields[4])
        if path == str(directory) or path.startswith(f"{directory}/"):
            kind, source = after.split()[:2]
            found.append(Mounted(path, kind, fields[2], source))
    return found


def mounts_at(path: Path) -> list[Mounted]:
    """The stack of mounts at exactly this path, bottom first."""
    return [entry for entry in mounted_at_or_below(path) if entry.path == str(path)]


def abort_fuse(device: str) -> None:
    """Abort the FUSE connection of a mount (`major:minor`), so that its callers get an error."""
    with contextlib.suppress(OSError):  # no fusectl here: the end of the server has the same effect
        (FUSE_CONNECTIONS / device.partition(":")[2] / "abort").write_text("1")


def unmount_below(directory: Path) -> list[str]:
    """Unmount everything below `directory`, topmost first; returns the paths that are still mounted."""
    for entry in reversed(mounted_at_or_below(directory)):
        if entry.type.startswith("fuse"):
            abort_fuse(entry.device)
        unmount(entry.path)
    return [entry.path for entry in mounted_at_or_below(directory)]
