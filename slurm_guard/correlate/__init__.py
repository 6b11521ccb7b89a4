"""Floor 6: incidents. Findings of one cause over time, devices and nodes are one incident.

`run(store, now)` looks at what is new in the store; the rest is how. docs/incidents.md has the rules.
"""

from __future__ import annotations

from slurm_guard.correlate.changes import Changes
from slurm_guard.correlate.follow import run
from slurm_guard.correlate.watch import Watched

__all__ = ["Changes", "Watched", "run"]
