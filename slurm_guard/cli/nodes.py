"""`sguard nodes`: every node in one line."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from slurm_guard.cli import options, output
from slurm_guard.cli.host import Host
from slurm_guard.core.outcome import PASS, SKIP

if TYPE_CHECKING:
    from slurm_guard.slurm.gateway import NodeState as SlurmNode
    from slurm_guard.store.model import NodeState


def nodes(
    nodes: options.Nodes = None,
    partition: options.Partition = None,
    cluster: options.Cluster = None,
    no_slurm: Annotated[bool, typer.Option("--no-slurm", help="Do not ask Slurm.")] = False,
    root: options.Root = "/",
    as_json: options.Json = False,
) -> int:
    """List nodes with their last result.

    Ends with 1 if any node has a problem on record. Nodes that Slurm knows and no run is on record of are
    listed too.
    """
    from slurm_guard.cli import fleet
    from slurm_guard.cli.results import open_results
    from slurm_guard.store.fleet import node_states

    host = Host(root)
    names = fleet.expand(nodes)
    slurm = fleet.ask_slurm(host, wanted=not no_slurm)
    chosen = fleet.choose(names, fleet.in_partition(slurm, partition))
    with open_results(host) as store:
        known = {state.node: state for state in node_states(store, chosen, cluster)}
    listed = chosen if chosen is not None else sorted({*known, *slurm.nodes}, key=_natural)
    rows = [_row(name, known.get(name), slurm.nodes.get(name)) for name in listed]
    if as_json:
        output.emit_json("nodes", {"nodes": rows, "slurm_problem": slurm.problem})
    else:
        _print(rows)
        fleet.warn_unreachable(slurm, not no_slurm)
    return 1 if any(row["status"] not in (PASS, SKIP, "none") for row in rows) else 0


def _row(name: str, known: "NodeState | None", slurm: "SlurmNode | None") -> dict[str, Any]:
    from slurm_guard.report.layout import iso

    last = known.last if known is not None else None
    row: dict[str, Any] = {
        "node": name,
        "cluster": known.cluster if known else "",
        "status": known.status if known is not None and last is not None else "none",
        "last_run": None,
        "faults": [_name(one.fault, one.device) for one in known.open_faults] if known else [],
        "state": str(slurm) if slurm else "",
        "reason": slurm.reason if slurm and slurm.drained else "",
    }
    if last is not None:
        row["last_run"] = {"run_id": last.run_id, "hook": last.hook, "at": iso(last.started)}
    return row


def _print(rows: list[dict[str, Any]]) -> None:
    import time

    from slurm_guard.report.layout import span, unix

    now = round(time.time() * 1000)
    lines = []
    for row in rows:
        last = row["last_run"]
        at = unix(last["at"]) if last else None
        ago = f"{last['hook']}, {span(now - at)} ago" if at is not None else "no run on record"
        lines.append((row["node"], row["status"], row["state"], ago, row["faults"] or row["reason"]))
    if lines:
        output.table(("node", "status", "slurm", "last run", "open faults"), lines)
    else:
        output.note("No node is on record.")


def _name(fault: str, device: str) -> str:
    return f"{fault} {device}".strip()


def _natural(name: str) -> list[tuple[int, int | str]]:
    """Orders n2 before n10."""
    import re

    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name) if part]
