"""`sguard node`: the report on one node."""

from typing import TYPE_CHECKING, Annotated

import typer

from slurm_guard.cli import options, output
from slurm_guard.cli.host import Host
from slurm_guard.core.errors import NotFoundError
from slurm_guard.core.outcome import PASS, SKIP

if TYPE_CHECKING:
    from slurm_guard.report.outlook import Slurm


def node(
    name: Annotated[str, typer.Argument(metavar="NODE", help="One NodeName.")],
    start: options.Start = None,
    end: options.End = None,
    cluster: options.Cluster = None,
    no_slurm: Annotated[bool, typer.Option("--no-slurm", help="Do not ask Slurm.")] = False,
    root: options.Root = "/",
    as_json: options.Json = False,
) -> int:
    """Show what is known of one node: faults, jobs, actions.

    Findings, jobs, actions and gaps are those of the last seven days, or between -S and -E. Ends with 1 if
    the node has a problem on record.
    """
    from slurm_guard.cli import fleet
    from slurm_guard.cli.results import open_results
    from slurm_guard.cli.timeforms import milliseconds
    from slurm_guard.report import node as report

    host = Host(root)
    window = milliseconds(start, "-S"), milliseconds(end, "-E")
    slurm = fleet.ask_slurm(host, wanted=not no_slurm, cluster=cluster)
    with open_results(host) as store:
        fleet.ensure_cluster(store, cluster, host)
        known = fleet.known_node(store, name, cluster)
        try:
            where = known.cluster if known is not None else cluster
            page = report.build(store, name, *window, where, plan=host.plan, slurm=slurm)
        except NotFoundError as error:
            raise _not_on_record(name, slurm, error) from None
    if as_json:
        output.emit_json("node", page)
    else:
        print(report.text(page).rstrip("\n"))
        fleet.warn_unreachable(slurm, not no_slurm)
    if name == host.node:
        fleet.warn_switched_off(host)
    return 0 if page["status"] in (PASS, SKIP) and not page["open_faults"] and not page["drained"] else 1


def _not_on_record(name: str, slurm: "Slurm", error: NotFoundError) -> NotFoundError:
    told = slurm.nodes.get(name)
    if told is None:
        return error
    advice = "ingest its spool, or run `sguard doctor` on it"
    return NotFoundError(f"{name} is {told} in Slurm, but no run of it is on record: {advice}")
