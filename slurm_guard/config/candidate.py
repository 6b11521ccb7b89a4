"""A configuration that is not applied: compiled as `sguard config apply` would, and written nowhere."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_guard.config import host as host_module
from slurm_guard.config import load, slurm_conf, sources
from slurm_guard.config.compile import compile_bundle
from slurm_guard.config.partitions import partitions_of
from slurm_guard.core.errors import ConfigError
from slurm_guard.core.paths import Places

if TYPE_CHECKING:
    from slurm_guard.core.plan import Plan


class Candidate:
    """A plan that could be: `bundle`, Slurm's `partitions` by name with their nodes, and remarks."""

    def __init__(self, bundle: dict[str, Any], partitions: dict[str, list[str]], notes: list[str]) -> None:
        self.bundle = bundle
        self.partitions = partitions
        self.notes = notes


class _Elsewhere(Places):
    """This host with another folder of settings."""

    def __init__(self, places: Places, folder: str) -> None:
        super().__init__(places.root)
        self.etc = folder


def read(places: Places, path: str) -> Candidate:
    """Compile a file of settings, or a folder with `slurm-guard.toml` and `conf.d` in it.

    Raises ConfigError with everything that is wrong.
    """
    if not os.path.lexists(path):
        raise ConfigError(f"{path}: no such file or folder; expected settings, or a folder with them")
    whole = Path(path).absolute()
    if whole.is_dir():
        reading = load.read(_Elsewhere(places, str(whole)))
        if not reading.files and not reading.problems:
            raise ConfigError(f"{path}: neither slurm-guard.toml nor conf.d/*.toml is in this folder")
    else:
        file = sources.read_file(str(whole))
        reading = load.read(_Elsewhere(places, str(whole.parent)), sources=file)
    config = load.require(reading)
    host = host_module.look(places, config)
    load.check_partitions(reading, host.partitions)
    load.require(reading)
    bundle = compile_bundle(config, host, reading.catalogue, int(time.time()))
    return Candidate(bundle, host.partitions, reading.notes)


def partitions(places: Places, plan: Plan) -> dict[str, list[str]]:
    """Slurm's partitions by the slurm.conf that a plan names, or the usual one; none if it cannot be read."""
    path = plan.slurm_conf or host_module.find_conf(places)
    return partitions_of(slurm_conf.read(host_module.reach(places, path))) if path else {}
