"""What lies in a cluster's folder before its daemons start: configuration, hooks, simulated machines."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
from typing import TYPE_CHECKING

from minicluster import hooks, nvml_library, requirements, slurm_conf
from minicluster.errors import MiniclusterError, StartError
from minicluster.files import write_atomically
from minicluster.mounting import unmount_below
from minicluster.simulated import SimulatedMachine, make_device

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from minicluster.slurm_conf import Layout

FOLDERS = ("etc", "run", "log", "state", "spool", "hooks", "nodes", "machines")
OPTIONAL_FOLDERS = ("db",)
FIRST_VERSION_WITH_CGROUP_PLUGIN = (23, 11)


def check_folder(directory: Path) -> None:
    """Raise MiniclusterError if the folder holds something that isn't a cluster's."""
    if not directory.exists() or (directory / "cluster.json").exists():
        return
    strangers = sorted(entry.name for entry in directory.iterdir() if entry.name != "cluster.lock")
    if strangers:
        raise MiniclusterError(f"{directory} holds {strangers[0]} but no cluster: choose another folder")


def make_folders(layout: Layout) -> None:
    """Fresh folders; what an earlier cluster left there goes, but never through a mount."""
    directory = layout.directory
    if mounted := unmount_below(directory):
        raise StartError(f"{mounted[0]} is mounted and can't be unmounted: choose another folder")
    for name in (*FOLDERS, *OPTIONAL_FOLDERS):
        shutil.rmtree(directory / name, ignore_errors=True)
    for name in FOLDERS:
        (directory / name).mkdir(parents=True)
    (directory / "run/slurmctld").mkdir()
    for name in ("state", "log", "run/slurmctld"):
        os.chown(directory / name, _uid(layout), -1)
    for node in layout.nodes:
        (directory / "spool" / node).mkdir()


def write_configuration(layout: Layout, hook_commands: Mapping[str, str]) -> None:
    """Slurm's files below `etc`, and the hook scripts."""
    etc = layout.directory / "etc"
    write_atomically(layout.conf_path, slurm_conf.slurm_conf(layout))
    write_atomically(etc / "gres.conf", slurm_conf.gres_conf(layout))
    if _slurm_version() >= FIRST_VERSION_WITH_CGROUP_PLUGIN:  # older ones don't know the key
        write_atomically(etc / "cgroup.conf", "CgroupPlugin=disabled\n")
    if layout.dbd:
        write_atomically(etc / "slurmdbd.conf", slurm_conf.slurmdbd_conf(layout), 0o600)
        os.chown(etc / "slurmdbd.conf", _uid(layout), -1)  # slurmdbd insists on its user's private file
    hooks.install(layout.directory, hook_commands)


def make_machines(layout: Layout, *, simulate: bool) -> None:
    """The folder of every node; without simulation it holds the GPUs' device files only."""
    seed = secrets.token_hex(8)
    library = nvml_library.build() if simulate else None
    for name in layout.nodes:
        machine = SimulatedMachine(layout.directory, name)
        if simulate:
            machine.create(seed, library)
            continue
        for index in range(slurm_conf.GPUS):
            make_device(machine.root / f"dev/nvidia{index}")


def _uid(layout: Layout) -> int:
    return pwd.getpwnam(layout.slurm_user).pw_uid


def _slurm_version() -> tuple[int, ...]:
    """Major and minor, such as (22, 5), out of `slurm-wlm 22.05.8`."""
    argv = [requirements.program("slurmd"), "-V"]
    text = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=True).stdout
    return tuple(int(part) for part in text.split()[-1].split(".")[:2])
