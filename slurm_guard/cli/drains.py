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
    from slurm_guard.cli.timeforms import option

    host = Host(root)
    names = fleet.expand(nodes)
    since, until = option(start or "now-7days", "-S"), option(end, "-E")
    with open_results(host) as store:
        if history:
            window = [round(at.timestamp() * 1000) if at else None for at in (since, until)]
            return _history(store, window, names, as_json)
        slurm = fleet.ask_slurm(host)
        found = _drained(store, host, slurm, names)
    if as_json:
        output.emit_json("drains", {"drains": [_row(one) for one in found], "slurm_problem": slurm.problem})
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


def _history(store: "Store", window: list[int | None], names: list[str] | None, as_json: bool) -> int:
    from slurm_guard.report.layout import iso, when
    from slurm_guard.store.fleet import drains as done_actions

    done = done_actions(store, window[0], window[1], names)
    if as_json:
        rows = [
            {
                "node": one.node,
                "at": iso(one.at),
                "action": one.action,
                "fault": one.fault,
                "device": one.device,
                "reason": one.reason,
                "outcome": one.outcome,
                "why": one.why,
                "by": one.by,
                "user": one.user,
                "job_id": one.job_id,
            }
            for one in done
        ]
        output.emit_json("drain_history", {"actions": rows})
        return 0
    lines = [
        (when(one.at), one.node, one.action, one.outcome, one.user or one.by, one.reason, one.why)
        for one in done
    ]
    if lines:
        output.table(("at (UTC)", "node", "action", "outcome", "by", "reason", "why"), lines)
    else:
        output.note("Nothing was drained, refused or resumed in this time.")
    return 0
