"""What a plan needs to know of this host: Slurm's programs and configuration, the NVML binding's folder."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_guard.config import slurm_conf
from slurm_guard.config.partitions import partitions_of

if TYPE_CHECKING:
    from slurm_guard.config.model import Config
    from slurm_guard.core.paths import Places

PROGRAMS = ("scontrol", "sinfo", "squeue", "sacct")
BIN_FOLDERS = (
    "/usr/bin",
    "/usr/local/bin",
    "/opt/slurm/bin",
    "/usr/local/slurm/bin",
    "/opt/slurm/current/bin",
)
CONF_FILES = (
    "/etc/slurm/slurm.conf",
    "/run/slurm/conf/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/usr/local/etc/slurm.conf",
    "/opt/slurm/etc/slurm.conf",
)


class Host:
    """Facts of one host as the compiler needs them.

    `partitions` are slurm.conf's with their NodeNames; `notes` says what was not found.
    """

    def __init__(self, programs: dict[str, str], conf: str, cluster: str, python_path: list[str]) -> None:
        self.programs = programs
        self.slurm_conf = conf
        self.cluster = cluster
        self.python_path = python_path
        self.partitions: dict[str, list[str]] = {}
        self.notes: list[str] = []


def look(places: Places, config: Config) -> Host:
    """Find Slurm and the binding, the settings first, then the usual places."""
    conf = config.slurm.conf or find_conf(places)
    read = slurm_conf.read(reach(places, conf)) if conf else slurm_conf.SlurmConf("")
    # A healthcheck is not told the cluster's name by slurmd.
    host = Host(find_programs(places, config), conf, read.last("ClusterName") or "", python_path(config))
    host.partitions = partitions_of(read)
    missing = [name for name in PROGRAMS if name not in host.programs]
    if missing:
        host.notes.append(
            f"{', '.join(missing)} not found (looked in {config.slurm.bin or ', '.join(BIN_FOLDERS)}): "
            "without scontrol nothing can be drained; set `bin` in [slurm]"
        )
    if not conf:
        host.notes.append(
            "no slurm.conf in the usual places: Slurm's own default is used; set `conf` in [slurm]"
        )
    if not host.python_path:
        host.notes.append("the Python package nvidia-ml-py is not installed here: GPU checks will be unknown")
    return host


def reach(places: Places, path: str) -> str:
    """Where a path of the node can be read from here: below the root if it is there, else as it is."""
    below = places.below(path)
    return below if os.path.lexists(below) else path


def find_conf(places: Places) -> str:
    """The first usual slurm.conf that exists below the root; empty if none does."""
    return next((path for path in CONF_FILES if Path(places.below(path)).is_file()), "")


def find_programs(places: Places, config: Config) -> dict[str, str]:
    """Absolute paths of those of Slurm's programs that can be found."""
    found = {}
    for name in PROGRAMS:
        named = getattr(config.slurm.programs, name)
        folders = [config.slurm.bin] if config.slurm.bin else BIN_FOLDERS
        candidates = [named] if named else [f"{folder}/{name}" for folder in folders]
        path = next((path for path in candidates if is_program(reach(places, path))), None)
        if path:
            found[name] = path
    return found


def is_program(path: str) -> bool:
    """True for a file that may be executed; a folder may be entered, which is the same right."""
    return Path(path).is_file() and os.access(path, os.X_OK)


def python_path(config: Config) -> list[str]:
    """The folders that hold the `pynvml` module; the hooks' interpreter may be another one than this."""
    if config.nvml.python_path is not None:
        return list(config.nvml.python_path)
    spec = importlib.util.find_spec("pynvml")
    if spec is None or spec.origin is None:
        return []
    return [str(Path(spec.origin).resolve().parent)]
