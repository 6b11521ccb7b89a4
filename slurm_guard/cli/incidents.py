"""`sguard incidents`: what is wrong now, one line of causes instead of a thousand findings."""

from typing import Annotated

import typer

from slurm_guard.cli import options, output
from slurm_guard.cli.host import Host

_STATES = {
    "open": ["open"],
    "acknowledged": ["acknowledged"],
    "resolved": ["resolved"],
    "all": None,
}
_GOING_ON = ["open", "acknowledged"]
_RECENT = "now-7days"


def incidents(
    start: options.Start = None,
    state: Annotated[
        str | None, typer.Option("--state", metavar="STATE", help=f"One of {', '.join(_STATES)}.")
    ] = None,
    nodes: options.Nodes = None,
    cluster: options.Cluster = None,
    root: options.Root = "/",
    as_json: options.Json = False,
) -> int:
    """List incidents: findings of one cause, over time, devices and nodes.

    Those that go on, if nothing else is asked for. With `--state resolved` or `all`, those of the last seven
    days or from -S on. Ends with 1 if one of those listed is open.
    """
    from slurm_guard.cli import fleet
    from slurm_guard.cli.results import open_results
    from slurm_guard.cli.timeforms import milliseconds
    from slurm_guard.report import incidents as report

    if state is not None and state not in _STATES:
        said = f"{output.printable(state)[:40]!r}; expected one of {', '.join(_STATES)}"
        raise typer.BadParameter(said, param_hint="--state")
    host = Host(root)
    states = _GOING_ON if state is None else _STATES[state]
    since = milliseconds(start or (_RECENT if state in ("resolved", "all") else None), "-S")
    names = fleet.expand(nodes)
    with open_results(host) as store:
        fleet.ensure_cluster(store, cluster, host)
        page = report.build(store, states=states, since=since, nodes=names, cluster=cluster)
    if as_json:
        output.emit_json("incidents", page)
    else:
        print(report.text(page) or "No incident.\n", end="")
    return 1 if any(one["state"] == "open" for one in page["incidents"]) else 0
