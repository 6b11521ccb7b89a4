"""Keeps the real mounts below a node's folder in step with its model.

Every declared mount is a small tmpfs of its own, so that statvfs, writing and filling up are real. A hung
or stale one gets a FUSE mount on top, served by a process of its own (hungfs.py).
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from minicluster import mounting, processes
from minicluster.errors import MiniclusterError

if TYPE_CHECKING:
    from minicluster.machine.model import Machine, Mount

OPTIONS = "size=4m,nr_inodes=512,mode=1777"
FILLER = ".minicluster-filler"
SERVER = Path(__file__).with_name("hungfs.py")


class MountTable:
    """The mounts of one node. `run` is the folder of process records, `log` that of logs."""

    def __init__(self, node: str, root: Path, run: Path, log: Path) -> None:
        self.node, self.root, self.run, self.log = node, root, run, log

    def apply(self, machine: Machine) -> None:
        """Make the real mounts match the model; what is right already stays as it is, at every moment."""
        for mount in machine.mounts:
            self._apply(mount)

    def _apply(self, mount: Mount) -> None:
        path = self.path(mount)
        if mount.trouble != self._trouble(path):
            self.free(mount)
        elif mount.trouble:
            return  # whatever else is asked of it: a hung mount can't be touched
        stack = mounting.mounts_at(path)
        if not mount.present:
            for _ in stack:
                mounting.unmount(path)
            return
        path.mkdir(parents=True, exist_ok=True)
        if os.geteuid() != 0:
            _insist_on_plain(mount)
            return
        if not stack:
            mounting.mount(
                f"{self.node}-{path.name}", path, "tmpfs", mounting.MS_NOSUID | mounting.MS_NODEV, OPTIONS
            )
        if not _is_filled(path, mount):
            self._set_read_only(path, read_only=False)
            _fill(path, mount)
        self._set_read_only(path, read_only=mount.read_only)
        if mount.trouble:
            self._break(path, mount.trouble)

    def path(self, mount: Mount) -> Path:
        """Where the mount really is."""
        return self.root / mount.path.lstrip("/")

    def free(self, mount: Mount) -> None:
        """End the server of a hung mount, abort its connection, detach it. Never blocks."""
        path = self.path(mount)
        identity = processes.read_record(self._record(path))
        for entry in mounting.mounts_at(path):
            if entry.type.startswith("fuse"):
                mounting.abort_fuse(entry.device)
        if identity is None or not processes.end([identity], patience=2.0):
            self._record(path).unlink(missing_ok=True)
        while self._trouble(path) and mounting.unmount(path):
            continue

    def _trouble(self, path: Path) -> str:
        """What is wrong with the mount now; "" for nothing."""
        sources = [entry.source for entry in mounting.mounts_at(path) if entry.type.startswith("fuse")]
        return sources[-1] if sources else ""

    def _record(self, path: Path) -> Path:
        name = str(path.relative_to(self.root)).replace("/", "-")
        return self.run / f"hungfs.{self.node}.{name}.pid"

    def _break(self, path: Path, trouble: str) -> None:
        record = self._record(path)
        log = self.log / f"{record.stem}.log"
        identity = processes.launch(
            record, [sys.executable, "-I", "-S", str(SERVER), str(path), trouble], log, Path("/")
        )
        deadline = time.monotonic() + 60
        while self._trouble(path) != trouble:
            if not processes.is_alive(identity) or time.monotonic() > deadline:
                processes.end([identity], patience=0)
                raise MiniclusterError(f"can't break {path}: see {log} (needs /dev/fuse and CAP_SYS_ADMIN)")
            time.sleep(0.005)

    def _set_read_only(self, path: Path, *, read_only: bool) -> None:
        if bool(os.statvfs(path).f_flag & os.ST_RDONLY) == read_only:
            return
        flags = mounting.MS_REMOUNT | mounting.MS_NOSUID | mounting.MS_NODEV
        mounting.mount("none", path, "tmpfs", flags | (mounting.MS_RDONLY if read_only else 0), OPTIONS)


def _insist_on_plain(mount: Mount) -> None:
    """Without root a mount is a plain folder: good enough while nothing is wrong with it."""
    if mount.trouble or mount.read_only or mount.fill:
        raise MiniclusterError(f"only root can make {mount.path} hang, read-only or full")


def _is_filled(path: Path, mount: Mount) -> bool:
    """True if exactly what the model asks for is used up."""
    return (_filler_size(path), len(_filler_files(path))) == _wanted(path, mount)


def _fill(path: Path, mount: Mount) -> None:
    """Use up space or inodes, to `fill_percent` of the total; or give everything back. Never all at once
    given back and taken again: a check that looks in between would see a healthy mount."""
    size, count = _wanted(path, mount)
    files = _filler_files(path)
    for file in files[count:]:
        file.unlink()
    for number in range(len(files), count):
        (path / f"{FILLER}-{number:05}").touch()
    if size == 0:
        (path / FILLER).unlink(missing_ok=True)
        return
    held = _filler_size(path)
    with open(path / FILLER, "ab") as filler:
        filler.truncate(min(held, size))
        filler.write(b"\0" * (size - held))


def _wanted(path: Path, mount: Mount) -> tuple[int, int]:
    """Bytes of the filler, and number of its empty files."""
    usage = os.statvfs(path)
    if mount.fill == "space":
        used_by_others = usage.f_blocks - usage.f_bavail - _filler_size(path) // usage.f_frsize
        return max(0, usage.f_blocks * mount.fill_percent // 100 - used_by_others) * usage.f_frsize, 0
    if mount.fill == "inodes":
        used_by_others = usage.f_files - usage.f_ffree - len(_filler_files(path))
        return 0, max(0, usage.f_files * mount.fill_percent // 100 - used_by_others)
    return 0, 0


def _filler_size(path: Path) -> int:
    try:
        return (path / FILLER).stat().st_size
    except FileNotFoundError:
        return 0


def _filler_files(path: Path) -> list[Path]:
    return sorted(path.glob(f"{FILLER}-*"))
