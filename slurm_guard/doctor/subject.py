"""The host under examination: its files, plan, configuration and slurm.conf, each read once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_guard.config import host as host_module
from slurm_guard.config import load, slurm_conf
from slurm_guard.core import plan as plans
from slurm_guard.doctor import place

if TYPE_CHECKING:
    from slurm_guard.config.load import Reading
    from slurm_guard.config.slurm_conf import SlurmConf
    from slurm_guard.core.paths import Places
    from slurm_guard.core.plan import Plan


class Subject:
    """What every examination starts from.

    `slurm` is None where no slurm.conf can be found; `conf_place` says who named it.
    """

    def __init__(self, places: Places, node: str, now: float | None = None) -> None:
        self.places = places
        self.node = node
        self.plan: Plan = plans.load(places.plan, node, now)
        self.reading: Reading = load.read(places)
        self.slurm: SlurmConf | None = self._read_slurm_conf()

    def _read_slurm_conf(self) -> SlurmConf | None:
        configured = self.reading.config.slurm.conf if self.reading.config else None
        self.conf_place = place.find(self.places, self.plan.slurm_conf, configured)
        return slurm_conf.read(self.reach(self.conf_place.path)) if self.conf_place.path else None

    def reach(self, path: str) -> str:
        """Where a path of the node can be read from here."""
        return host_module.reach(self.places, path)
