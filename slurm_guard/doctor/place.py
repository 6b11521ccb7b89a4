"""Where slurm.conf is: what is set, then the usual places, then the caller's own $SLURM_CONF.

Hooks never look at $SLURM_CONF here: slurmd gives them their own, and the plan says the rest.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from slurm_guard.config import host

if TYPE_CHECKING:
    from slurm_guard.core.paths import Places

VARIABLE = "SLURM_CONF"


class ConfPlace(NamedTuple):
    """A path of slurm.conf (empty: none is known) and who named it: `given`, `usual`, `environment` or ``."""

    path: str
    source: str


def find(places: Places, *known: str | None) -> ConfPlace:
    """The first of the known paths that is not empty, else what can be found."""
    given = next((path for path in known if path), "")
    if given:
        return ConfPlace(given, "given")
    usual = host.find_conf(places)
    if usual:
        return ConfPlace(usual, "usual")
    named = os.environ.get(VARIABLE, "")
    return ConfPlace(named, "environment") if named else ConfPlace("", "")
