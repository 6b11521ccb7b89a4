"""Nodes that only slurmctld knows: no slurmd runs for them. For what concerns many nodes and no job.

Their state is UNKNOWN from the controller's start on. They run nothing, and can be drained, but not resumed
before they were DOWN and resumed once: then they are IDLE+NOT_RESPONDING.
"""

from __future__ import annotations

import socket


def conf(count: int, name: str = "d", first_port: int = 40000) -> dict[str, str]:
    """Further keys of slurm.conf for a `Cluster`: nodes d001 to d<count> in a partition `ghost`.

    Nothing listens at their ports. SlurmdTimeout is off, so that nobody sets them down.
    """
    host = socket.gethostname().partition(".")[0]
    names = names_text(count, name)
    ports = f"[{first_port}-{first_port + count - 1}]"
    hardware = "CPUs=64 RealMemory=2000000 State=UNKNOWN"
    return {
        "NodeName": f"{names} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports} {hardware}",
        "PartitionName": f"ghost Nodes={names} MaxTime=INFINITE State=UP",
        "SlurmdTimeout": "0",
    }


def names_text(count: int, name: str = "d") -> str:
    """The names as a hostlist."""
    return f"{name}[001-{count:03d}]"


def names(count: int, name: str = "d") -> list[str]:
    """The names."""
    return [f"{name}{number:03d}" for number in range(1, count + 1)]
