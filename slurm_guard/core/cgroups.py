"""Whose a process is, by the path of its cgroup, as Slurm makes them for jobs and steps."""

from __future__ import annotations

import re

#: `…/slurmstepd.scope/job_7/step_0/…` (version 2; with several slurmd on a host their node's name comes
#: first) and `…/slurm/uid_1000/job_7/step_0/…` (version 1; a node's name may follow `slurm`).
_JOB = re.compile(
    r"/(?:[\w.-]*slurmstepd\.scope|slurm[\w.-]*/uid_\d{1,10})/job_(?P<job>[1-9]\d{0,9})"
    r"(?:/step_(?P<step>\w{1,20}))?(?:/|$)"
)


def job_of(path: str) -> tuple[int, str] | None:
    """Job id and step (`0`, `batch`, `extern`; empty: the job as a whole) of a cgroup's path.

    None where it is no job's. `extern` is what users do on the node by SSH, not the job's own code. From
    Slurm 26.05 on a job's folder may be named by another id of its own: None then, and never another job.
    """
    found = _JOB.search(path)
    return (int(found["job"]), found["step"] or "") if found else None
