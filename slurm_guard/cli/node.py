"""`sguard node`: one node on one page."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from slurm_guard.cli import options, output
from slurm_guard.cli.host import Host
from slurm_guard.core.outcome import PASS, SKIP

if TYPE_CHECKING:
    from slurm_guard.store import Store


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

    Jobs, actions and gaps are those since `now-1day`, or between -S and -E. Ends with 1 if the node has a
    problem on record.
    """
    from slurm_guard.cli import fleet
    from slurm_guard.cli.node_page import build, text
    from slurm_guard.cli.results import open_results
    from slurm_guard.cli.timeforms import option
    from slurm_guard.core.errors import NotFoundError

    host = Host(root)
    window = [option(start or "now-1day", "-S"), option(end or "now", "-E")]
    since, until = (round(at.timestamp() * 1000) for at in window if at is not None)
    slurm = fleet.ask_slurm(host, wanted=not no_slurm)
    told = slurm.nodes.get(name)
    with open_results(host) as store:
        found = _known(store, name, cluster)
        if found is None and told is None:
            why = slurm.problem or "sinfo does not list it"
            raise NotFoundError(f"{output.printable(name)}: not on record, and not known to Slurm: {why}")
        page = build(store, host.plan, name, found, told, (since, until))
    page["slurm_problem"] = slurm.problem
    if as_json:
        output.emit_json("node", page)
    else:
        print(text(page))
        fleet.warn_unreachable(slurm, not no_slurm)
    return 0 if page["status"] in (PASS, SKIP, "none") and not page["drained"] else 1


def _known(store: "Store", name: str, cluster: str | None) -> Any:
    from slurm_guard.store.fleet import node_states

    found = node_states(store, [name], cluster)
    return found[0] if found else None
