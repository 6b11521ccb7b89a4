"""`sguard drains`: what is out of service because of slurm_guard, what is not, why, and what comes next."""

from typing import TYPE_CHECKING, Annotated

import typer

from slurm_guard.cli import options, output
from slurm_guard.cli.host import Host

if TYPE_CHECKING:
    from slurm_guard.store import Store


_RECENT = "now-7days"


def drains(
    history: Annotated[
        bool, typer.Option("--history", help="Drains, refusals and resumes of a time.")
    ] = False,
    nodes: options.Nodes = None,
    start: options.Start = None,
    end: options.End = None,
    root: options.Root = "/",
    as_json: options.Json = False,
) -> int:
    """List nodes that slurm_guard drained or should have, and what is next.

    A node in service with an open fault that calls for a drain is listed too. Slurm's own word counts
    where it can be asked; else the records'. Ends with 1 if there is any such node. `--history` lists what
    was done instead, from `now-7days` on, or between -S and -E.
    """
    from slurm_guard.cli import fleet
    from slurm_guard.cli.results import open_results
    from slurm_guard.cli.timeforms import milliseconds
    from slurm_guard.report import drains as report

    if not history and (start or end):
        raise typer.BadParameter("they choose a time of --history, which is not given", param_hint="-S, -E")
    host = Host(root)
    names = fleet.expand(nodes)
    window = milliseconds(start or _RECENT, "-S"), milliseconds(end, "-E")
    with open_results(host) as store:
        if history:
            return _history(store, names, window, as_json)
        slurm = fleet.ask_slurm(host)
        page = report.build(store, host.plan, slurm, names)
        observed = _observed(store, names)
    if as_json:
        output.emit_json("drains", page)
    else:
        text = report.text(page)
        is_any = any(report.is_ours(row) for row in page["drains"])
        print(text if is_any else f"No node is drained by slurm_guard.\n{text}", end="")
        if observed:
            would = f"{output.count(observed, 'node')} would have been drained in the last 7 days"
            print(f"{would} (mode observe): see --history")
        fleet.warn_unreachable(slurm, True)
    return 1 if page["drains"] or page["not_drained"] else 0


def _observed(store: "Store", names: list[str] | None) -> int:
    """How many nodes a drain or refusal was called for lately and the mode said to observe only."""
    from slurm_guard.cli.timeforms import milliseconds
    from slurm_guard.store import fleet

    found = fleet.drains(store, milliseconds(_RECENT, "-S"), None, names)
    return len({one.node for one in found if one.outcome == "observed"})


def _history(
    store: "Store", names: list[str] | None, window: tuple[int | None, int | None], as_json: bool
) -> int:
    from slurm_guard.report import audit as report

    page = report.build(store, names, *window)
    if as_json:
        output.emit_json("drain_history", page)
    else:
        text = report.text(page)
        print(text, end="")
        if not text:
            output.note("Nothing was done in this time.")
    return 0
