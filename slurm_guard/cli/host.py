"""This host as the commands see it: its files, its plan, its NodeName."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_guard.core import plan as plans
from slurm_guard.core.errors import SetupError
from slurm_guard.core.paths import Places

if TYPE_CHECKING:
    from slurm_guard.core.plan import Plan


class Host:
    """Places and plan of this host; `node` is its NodeName, as far as that can be known outside a hook."""

    def __init__(self, root: str, node: str | None = None) -> None:
        folder = Path(root)
        if not folder.is_dir():
            raise SetupError(f"--root {root}: no such folder; expected a node's root folder")
        self.places = Places(root)
        self.node = node or node_name(self.places)
        self.plan: Plan = plans.load(self.places.plan, self.node)

    def require_plan(self) -> None:
        """Raise SetupError where the plan, which names Slurm's programs, is for other eyes."""
        if self._is_hidden():
            raise SetupError(f"{self.places.plan}: only root may read the plan; run as root (sudo)")

    def _is_hidden(self) -> bool:
        return self.plan.state == "torn" and not os.access(self.places.plan, os.R_OK)

    def plan_note(self) -> str:
        """What the reader must know about the plan; empty when it is in order."""
        if self.plan.state == "ok":
            return ""
        if self._is_hidden():
            return f"{self.places.plan}: only root may read it; the built-in defaults apply"
        return self.plan.problem

    def class_note(self) -> str:
        """Nothing is expected of a node that no class names: a pass says little then."""
        if self.plan.node_class or not self.plan.all_nodes:
            return ""
        return (
            f"{self.node} is in no class of the plan: nothing is expected of it; if it has another NodeName, "
            "give that with -w"
        )


def node_name(places: Places) -> str:
    """The NodeName of this host: what node.json says, else the short host name, as slurmd itself takes it."""
    named = places.node.get("node")
    if isinstance(named, str) and named:
        return named
    return os.uname().nodename.partition(".")[0]
