"""`sguard drains`: what is out of service because of slurm_guard, why, and what happens next."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from slurm_guard.cli import options, output
from slurm_guard.cli.host import Host

if TYPE_CHECKING:
    from slurm_guard.cli.fleet import Slurm
    from slurm_guard.cli.outlook import Drained
    from slurm_guard.store import Store


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
    """List nodes that slurm_guard drained, and what happens next.

    Slurm's own word counts where it can be asked; else the records'. Ends with 1 if a node is drained.
    `--history` lists what was done instead, from `now-7days` on.
    """
    from slurm_guard.cli import fleet
    from slurm_guard.cli.results import open_results
    from slurm_guard.cli.timeforms import milliseconds

    host = Host(root)
    names = fleet.expand(nodes)
    window = milliseconds(start or "now-7days", "-S"), milliseconds(end, "-E")
    with open_results(host) as store:
        if history:
            return _history(store, names, window, as_json)
        slurm = fleet.ask_slurm(host)
        found = _drained(store, host, slurm, names)
    if as_json:
        output.emit_json(
            "drains", {"drains": [_row(one) for one in found], "slurm_problem": slurm.problem or None}
        )
    else:
        _print(found)
        fleet.warn_unreachable(slurm, True)
    return 1 if found else 0


def _drained(store: "Store", host: Host, slurm: "Slurm", names: list[str] | None) -> "list[Drained]":
    from slurm_guard.cli.outlook import look
    from slurm_guard.store.fleet import node_states

    known = {state.node: state for state in node_states(store, names)}
    wanted = sorted({*known, *slurm.nodes}) if names is None else names
    found = []
    for name in wanted:
        told = slurm.nodes.get(name)
        if slurm.reachable and told is None:
            continue
        one = look(host.plan, name, told, known.get(name))
        if one is not None:
            found.append(one)
    return found


def _row(one: "Drained") -> dict[str, Any]:
    from slurm_guard.report.layout import iso

    return {
        "node": one.node,
        "reason": one.reason,
        "since": iso(one.since),
        "ours": one.ours,
        "state": one.state,
        "next": one.next,
    }


def _print(found: "list[Drained]") -> None:
    from slurm_guard.report.layout import when

    if not found:
        output.note("No node is drained by slurm_guard.")
        return
    rows = [(one.node, one.state or "?", when(one.since), one.reason, one.next) for one in found]
    output.table(("node", "slurm", "since (UTC)", "reason", "next"), rows)


def _history(
    store: "Store", names: list[str] | None, window: tuple[int | None, int | None], as_json: bool
) -> int:
    from slurm_guard.report import drains as report

    page = report.build(store, names, *window)
    if as_json:
        output.emit_json("drain_history", {**page, "kind": "drain_history"})
    else:
        print(report.text(page).rstrip("\n"))
    return 0
