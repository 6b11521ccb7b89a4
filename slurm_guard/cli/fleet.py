"""Which nodes a command speaks of, and what Slurm says of them: shared by node, nodes and drains."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from slurm_guard.cli import output
from slurm_guard.cli.door import ask, door
from slurm_guard.core.errors import NotFoundError, SlurmError
from slurm_guard.report.outlook import Slurm

if TYPE_CHECKING:
    from slurm_guard.cli.host import Host
    from slurm_guard.slurm.gateway import NodeState
    from slurm_guard.store import Store
    from slurm_guard.store.model import NodeState as KnownNode

DEADLINE_S = 5.0


def ask_slurm(host: Host, *, wanted: bool = True, cluster: str | None = None) -> Slurm:
    """All nodes from one call to Slurm; with `wanted` False, or about another `cluster`, nothing is asked."""
    if not wanted:
        return Slurm([], "not asked (--no-slurm)")
    if cluster is not None and host.plan.cluster and cluster != host.plan.cluster:
        return Slurm([], f"this host's Slurm is {host.plan.cluster}'s and not {cluster}'s")
    nothing: list[NodeState] = []
    nodes, problem = ask(lambda: door(host).nodes(None, DEADLINE_S), nothing)
    return Slurm(nodes, problem)


def warn_unreachable(slurm: Slurm, wanted: bool) -> None:
    """Say that Slurm's side is missing from the answer, and why."""
    if wanted and slurm.problem:
        output.warn(f"without Slurm's own states: {output.brief(slurm.problem)}")


def warn_switched_off(host: Host) -> None:
    """Say that this host's hooks do nothing: its records only look fresh for a while."""
    for path in host.places.kill_switches:
        if os.path.lexists(path):
            output.warn(f"{host.node}: its hooks are switched off by {path}: no new run will be on record")


def expand(hostlist: str | None) -> list[str] | None:
    """The names of a hostlist option, in order; a bad pattern is a usage error that says what is wrong."""
    if hostlist is None:
        return None
    from slurm_guard.slurm.hostlist import expand as expand_hostlist

    try:
        return list(dict.fromkeys(expand_hostlist(hostlist)))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="-w") from None


def in_partition(slurm: Slurm, partition: str | None) -> set[str] | None:
    """The nodes of a partition; only Slurm knows them.

    Raises SlurmError if it cannot be asked, NotFoundError if it knows no such partition.
    """
    if partition is None:
        return None
    if not slurm.reachable:
        raise SlurmError(f"-p {partition}: only Slurm knows partitions: {slurm.problem}")
    found = {name for name, node in slurm.nodes.items() if partition in node.partitions}
    if not found:
        known = sorted({one for node in slurm.nodes.values() for one in node.partitions})
        raise NotFoundError(
            f"-p {partition}: no node in such a partition; known: {', '.join(known) or 'none'}"
        )
    return found


def choose(names: list[str] | None, of_partition: set[str] | None) -> list[str] | None:
    """The nodes that both options leave; None for all."""
    if of_partition is None:
        return names
    return sorted(of_partition) if names is None else [name for name in names if name in of_partition]


def ensure_cluster(store: Store, cluster: str | None, host: Host) -> None:
    """Raise NotFoundError for a cluster of -M that no record and no plan here names."""
    if cluster is None or cluster == host.plan.cluster:
        return
    from sqlalchemy import select

    from slurm_guard.store import schema

    with store.read() as connection:
        known = {*connection.scalars(select(schema.nodes.c.cluster).distinct()), host.plan.cluster} - {
            "",
            None,
        }
    if cluster not in known:
        names = ", ".join(sorted(known)) or "none"
        raise NotFoundError(f"-M {cluster}: no such cluster on record; known: {names}")


def known_node(store: Store, name: str, cluster: str | None = None) -> KnownNode | None:
    """A node as its records show it; of two clusters' nodes with that name, the one seen last.

    Records from before the first plan name no cluster, so that a node may be on record twice.
    """
    from slurm_guard.store.fleet import node_states

    found = [one for one in node_states(store, [name], cluster) if one.last is not None or one.drained_by]
    return max(found, key=lambda one: one.last.started if one.last is not None else 0, default=None)
