"""Where a bench runs: the checkout, a temporary folder, and how often to repeat."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Setting:
    """What every part of the bench is handed. `scale` is the share of 2,000 nodes in the store's figures."""

    folder: Path
    repetitions: int = 20
    scale: float = 1.0
    hook_runs: int = 1000
    collector_s: int = 20

    @property
    def python(self) -> str:
        """The interpreter that also runs the hooks of this checkout."""
        return str(CHECKOUT / ".venv/bin/python")

    @property
    def sguard(self) -> str:
        """The command line of this checkout."""
        return str(Path(sys.prefix) / "bin/sguard")

    def shim(self, hook: str) -> str:
        """The file that Slurm would call."""
        return str(CHECKOUT / hook / f"sguard-{hook}")
