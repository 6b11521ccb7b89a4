"""Faults of mounts: hanging, gone, read-only, of the wrong type, full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minicluster.faults.registry import Fault, Values, mount_of, register

if TYPE_CHECKING:
    from minicluster.machine.model import Machine


def hung(machine: Machine, device: str, values: Values) -> None:
    mount_of(machine, device).hung = True


def missing(machine: Machine, device: str, values: Values) -> None:
    mount_of(machine, device).present = False


def read_only(machine: Machine, device: str, values: Values) -> None:
    mount_of(machine, device).read_only = True


def wrong_type(machine: Machine, device: str, values: Values) -> None:
    mount_of(machine, device).type = values["type"]


def wrong_options(machine: Machine, device: str, values: Values) -> None:
    mount_of(machine, device).options = values["options"]


def full(machine: Machine, device: str, values: Values) -> None:
    mount = mount_of(machine, device)
    mount.fill, mount.fill_percent = "space", int(values["percent"])


def no_inodes(machine: Machine, device: str, values: Values) -> None:
    mount = mount_of(machine, device)
    mount.fill, mount.fill_percent = "inodes", int(values["percent"])


for fault in (
    Fault("fs_mounts.hung", "mount", "every access hangs (a FUSE mount that never answers)", apply=hung),
    Fault("fs_mounts.missing", "mount", "not mounted", apply=missing),
    Fault("fs_mounts.readonly", "mount", "mounted read-only", apply=read_only),
    Fault("fs_mounts.wrong_type", "mount", "another file system type", {"type": "tmpfs"}, wrong_type),
    Fault("fs_mounts.options", "mount", "other mount options", {"options": "rw,relatime"}, wrong_options),
    Fault("fs_space.full", "mount", "no space left", {"percent": "99"}, full),
    Fault("fs_space.inodes", "mount", "no inodes left", {"percent": "99"}, no_inodes),
):
    register(fault)
