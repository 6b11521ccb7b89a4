"""A model as files: the content of every file of the node's folder, and the changes between two models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minicluster.files import write_atomically
from minicluster.machine import gpu, infiniband, mounts, pci, procfs

if TYPE_CHECKING:
    from pathlib import Path

    from minicluster.machine.model import Machine

PARTS = (gpu, infiniband, pci, procfs, mounts)


def render(machine: Machine) -> dict[str, bytes | str]:
    """Every file of the machine: path below its folder → content, or, as a str, a symbolic link's target."""
    files: dict[str, bytes | str] = {"sys/fs/lustre/health_check": b"healthy\n"}
    for part in PARTS:
        files |= part.render(machine)
    for hca in machine.hcas:
        if hca.present:
            files[f"{infiniband.FOLDER}/{hca.name}/device"] = f"../../../bus/pci/devices/{hca.address}"
    return files


def update(root: Path, before: dict[str, bytes | str], after: dict[str, bytes | str]) -> None:
    """Make the folder show `after`, touching only what differs from `before`."""
    for path in before.keys() - after.keys():
        (root / path).unlink(missing_ok=True)
        _remove_empty_folders(root, path)
    for path, content in after.items():
        if before.get(path) == content:
            continue
        if isinstance(content, bytes):
            write_atomically(root / path, content)
        else:
            (root / path).unlink(missing_ok=True)
            (root / path).symlink_to(content)


def _remove_empty_folders(root: Path, path: str) -> None:
    """A device that is gone takes its folder along."""
    for folder in (root / path).parents:
        if folder == root:
            return
        try:
            folder.rmdir()
        except OSError:
            return
