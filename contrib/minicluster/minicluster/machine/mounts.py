"""What the node says is mounted: /proc/self/mountinfo and /proc/mounts.

The text claims Lustre, NFS and XFS; `mount_table.py` keeps the real mounts below the node's folder in step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minicluster.machine.model import Machine, Mount

SYSTEM = (
    # id, parent, device, path, options, type, source, super options
    (22, 1, "259:2", "/", "rw,relatime", "ext4", "/dev/nvme1n1p2", "rw,errors=remount-ro"),
    (23, 22, "0:21", "/sys", "rw,nosuid,nodev,noexec,relatime", "sysfs", "sysfs", "rw"),
    (24, 22, "0:22", "/proc", "rw,nosuid,nodev,noexec,relatime", "proc", "proc", "rw"),
    (25, 22, "0:5", "/dev", "rw,nosuid,relatime", "devtmpfs", "udev", "rw,size=1056694272k,mode=755"),
    (26, 25, "0:24", "/dev/shm", "rw,nosuid,nodev", "tmpfs", "tmpfs", "rw,inode64"),
    (
        27,
        22,
        "0:25",
        "/run",
        "rw,nosuid,nodev,noexec,relatime",
        "tmpfs",
        "tmpfs",
        "rw,size=211338856k,mode=755",
    ),
    (28, 22, "259:1", "/boot/efi", "rw,relatime", "vfat", "/dev/nvme1n1p1", "rw,fmask=0077,dmask=0077"),
)


def render(machine: Machine) -> dict[str, bytes]:
    """Path below the node's folder → content."""
    entries = [*SYSTEM]
    for number, mount in enumerate(machine.mounts):
        if mount.present:
            entries.append(_entry(40 + number, mount))
    mountinfo = "".join(
        f"{own} {parent} {device} / {path} {options} shared:{own} - {kind} {source} {super_options}\n"
        for own, parent, device, path, options, kind, source, super_options in entries
    )
    table = "".join(
        f"{source} {path} {kind} {_combined(options, super_options)} 0 0\n"
        for _, _, _, path, options, kind, source, super_options in entries
    )
    return {
        "proc/self/mountinfo": mountinfo.encode(),
        "proc/self/mounts": table.encode(),
        "proc/mounts": table.encode(),
    }


def _entry(number: int, mount: Mount) -> tuple[int, int, str, str, str, str, str, str]:
    options, super_options = mount.options, mount.super_options
    if mount.read_only:
        options, super_options = _read_only(options), _read_only(super_options)
    return number, 22, f"0:{number}", mount.path, options, mount.type, mount.source, super_options


def _read_only(options: str) -> str:
    return ",".join("ro" if option == "rw" else option for option in options.split(","))


def _combined(options: str, super_options: str) -> str:
    """/proc/mounts shows both kinds in one list, rw or ro once."""
    rest = [option for option in super_options.split(",") if option not in ("rw", "ro")]
    return ",".join([*options.split(","), *rest])
