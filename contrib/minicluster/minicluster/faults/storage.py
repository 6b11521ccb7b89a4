"""Faults of mounts: hanging, stale, gone, read-only, of the wrong type, full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minicluster.faults.registry import Apply, Fault, Values, mount_of, register

if TYPE_CHECKING:
    from minicluster.machine.model import Machine


def _set(**attributes: object) -> Apply:
    """Sets attributes of the mount in the model."""

    def apply(machine: Machine, device: str, values: Values) -> None:
        for name, value in attributes.items():
            setattr(mount_of(machine, device), name, value)

    return apply


def _wrong_type(machine: Machine, device: str, values: Values) -> None:
    mount_of(machine, device).type = values["type"]


def _options(machine: Machine, device: str, values: Values) -> None:
    mount_of(machine, device).options = values["options"]


def _fill(what: str) -> Apply:
    def apply(machine: Machine, device: str, values: Values) -> None:
        mount = mount_of(machine, device)
        mount.fill, mount.fill_percent = what, int(values["percent"])

    return apply


for fault in (
    Fault("fs_mounts.hung", "mount", "every access hangs (FUSE, no answer)", apply=_set(trouble="hang")),
    Fault("fs_mounts.stale", "mount", "every access fails with ESTALE", apply=_set(trouble="ESTALE")),
    Fault("fs_mounts.error", "mount", "every access fails with EIO", apply=_set(trouble="EIO")),
    Fault("fs_mounts.missing", "mount", "not mounted", apply=_set(present=False)),
    Fault("fs_mounts.readonly", "mount", "mounted read-only", apply=_set(read_only=True)),
    Fault("fs_mounts.wrong_type", "mount", "another file system type", {"type": "tmpfs"}, _wrong_type),
    Fault("fs_mounts.options", "mount", "other mount options", {"options": "rw,relatime"}, _options),
    Fault("fs_space.full", "mount", "no space left", {"percent": "99"}, _fill("space")),
    Fault("fs_space.inodes", "mount", "no inodes left", {"percent": "99"}, _fill("inodes")),
):
    register(fault)
