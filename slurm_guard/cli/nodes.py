"""`sguard nodes`: all nodes, those that need a look first."""

from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from slurm_guard.cli import options, output
from slurm_guard.cli.host import Host
from slurm_guard.core.errors import NotFoundError
from slurm_guard.core.outcome import PASS, SKIP

if TYPE_CHECKING:
    from slurm_guard.report.outlook import Slurm


def nodes(
    nodes: options.Nodes = None,
    partition: options.Partition = None,
    cluster: options.Cluster = None,
    no_slurm: Annotated[bool, typer.Option("--no-slurm", help="Do not ask Slurm.")] = False,
    root: options.Root = "/",
    as_json: options.Json = False,
) -> int:
    """List nodes with their last result.

    One line for each node that needs a look; clean nodes, and nodes that Slurm knows and no run is on record
    of, are folded. Names on record that are no nodes of Slurm's are listed and not counted. Ends with 1 if
    any node has a problem on record.
    """
    from slurm_guard.cli import fleet
    from slurm_guard.cli.results import open_results
    from slurm_guard.report import nodes as report

    if partition and no_slurm:
        raise typer.BadParameter(
            "only Slurm knows partitions: leave one of them out", param_hint="-p, --no-slurm"
        )
    host = Host(root)
    names = fleet.expand(nodes)
    slurm = fleet.ask_slurm(host, wanted=not no_slurm, cluster=cluster)
    chosen = fleet.choose(names, fleet.in_partition(slurm, partition))
    with open_results(host) as store:
        fleet.ensure_cluster(store, cluster, host)
        # Records from before the first plan name no cluster: without this, nodes would be listed twice.
        page = report.build(store, chosen, cluster or host.plan.cluster or None, slurm=slurm)
    if nodes and not page["nodes"] and not page["not_in_slurm"] and not set(chosen or ()) & set(slurm.nodes):
        _explain_absence(nodes, slurm)
    if as_json:
        output.emit_json("nodes", page)
    else:
        print(report.text(page).rstrip("\n"))
        fleet.warn_unreachable(slurm, not no_slurm)
    fleet.warn_switched_off(host)
    return 1 if any(_is_bad(row) for row in page["nodes"]) else 0


def _explain_absence(asked: str, slurm: "Slurm") -> NoReturn:
    """Names that nobody knows are a slip of the hand, and no healthy nodes."""
    also = "and Slurm knows none of them" if slurm.reachable else "and Slurm was not asked"
    raise NotFoundError(f"-w {asked}: no run of such a node is on record, {also}; see `sguard nodes`")


def _is_bad(row: dict[str, Any]) -> bool:
    return row["status"] not in (PASS, SKIP) or bool(row["open_faults"]) or row["drained"] is not None
