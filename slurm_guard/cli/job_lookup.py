"""What Slurm knows of a job, as this host asks it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_guard.cli.door import door
from slurm_guard.report import job_lookup
from slurm_guard.report.job_lookup import Found, number

if TYPE_CHECKING:
    from slurm_guard.cli.host import Host

__all__ = ["Found", "ask", "number"]


def ask(host: Host, job_id: str, *, wanted: bool = True) -> Found:
    """Ask Slurm for all runs of a job; with `wanted` False, nothing is asked."""
    if not wanted:
        return job_lookup.nothing("Slurm was not asked (--no-slurm)")
    return job_lookup.ask(door(host), job_id)
