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
        """Make the real mounts match the model; mounts that are right already stay as they are."""
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
        self._set_read_only(path, read_only=False)
        self._fill(path, mount)
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
        if identity is not None:
            processes.end([identity], patience=2.0)
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
        deadline = time.monotonic() + 10
        while self._trouble(path) != trouble:
            if not processes.is_alive(identity) or time.monotonic() > deadline:
                raise MiniclusterError(f"can't break {path}: see {log} (needs /dev/fuse and CAP_SYS_ADMIN)")
            time.sleep(0.005)

    def _set_read_only(self, path: Path, *, read_only: bool) -> None:
        flags = mounting.MS_REMOUNT | mounting.MS_NOSUID | mounting.MS_NODEV
        mounting.mount("none", path, "tmpfs", flags | (mounting.MS_RDONLY if read_only else 0), OPTIONS)

    def _fill(self, path: Path, mount: Mount) -> None:
        """Use up space or inodes, to `fill_percent` of the total; or give everything back."""
        filler = path / FILLER
        if mount.fill != "space":
            filler.unlink(missing_ok=True)
        if mount.fill != "inodes":
            for file in path.glob(f"{FILLER}-*"):
                file.unlink()
        if mount.fill == "space":
            _fill_space(filler, mount.fill_percent)
        elif mount.fill == "inodes":
            _fill_inodes(path, mount.fill_percent)


def _insist_on_plain(mount: Mount) -> None:
    """Without root a mount is a plain folder: good enough while nothing is wrong with it."""
    if mount.trouble or mount.read_only or mount.fill:
        raise MiniclusterError(f"only root can make {mount.path} hang, read-only or full")


def _fill_space(filler: Path, percent: int) -> None:
    usage = os.statvfs(filler.parent)
    mine = filler.stat().st_blocks * 512 // usage.f_frsize if filler.exists() else 0
    used_by_others = usage.f_blocks - usage.f_bavail - mine
    wanted = max(0, usage.f_blocks * percent // 100 - used_by_others)
    with open(filler, "wb") as file:
        file.write(b"\0" * (wanted * usage.f_frsize))


def _fill_inodes(path: Path, percent: int) -> None:
    usage = os.statvfs(path)
    wanted = usage.f_files * percent // 100 - (usage.f_files - usage.f_ffree)
    first = sum(1 for _ in path.glob(f"{FILLER}-*"))
    for number in range(max(0, wanted)):
        (path / f"{FILLER}-{first + number}").touch()
