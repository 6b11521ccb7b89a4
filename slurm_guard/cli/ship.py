"""`sguard ship`: send what waits in this node's spool to the collector now."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_guard.cli import options, output
from slurm_guard.cli.host import Host
from slurm_guard.core.errors import CollectorError, SetupError
from slurm_guard.engine import files, ship_state
from slurm_guard.engine.destination import Destination, destination

if TYPE_CHECKING:
    from slurm_guard.engine.ship import Shipped

#: A hook's shipper that sends right now is waited for.
PATIENCE_S = 30.0


def ship(root: options.Root = "/", as_json: options.Json = False) -> int:
    """Send this node's records to the collector now, and fetch its plan.

    Hooks do this by themselves after each run; this does not wait, and tries even after failures. Records
    stay on the node until the collector has acknowledged them. Ends with 1 if records were refused (they are
    set aside with the reason) or a plan was not taken, with 23 if the collector did not take what there is.
    """
    from slurm_guard.engine import ship as engine

    host = Host(root)
    host = Host(root, _node(host))
    to = destination(host.places, host.plan)
    if to is None:
        raise SetupError(
            "no collector is configured here, records stay on this host; expected collector.url in "
            f"{host.places.config} (then `sguard config apply`) or in {host.places.node_file}"
        )
    _check_rights(host)
    with files.locked(host.places.lock("ship"), PATIENCE_S, 0.1) as alone:
        if not alone:
            raise CollectorError("another shipment of this node is under way; look again in a minute")
        done = engine.ship(host.places, host.plan, to)
    _show(done, to, host, as_json)
    if done.why:
        return CollectorError.exit_code
    return 1 if done.refused or done.plan_why else 0


def _node(host: Host) -> str:
    """The NodeName: node.json's, else the one that hooks shipped as, else this host's."""
    return str(host.places.node.get("node") or "") or ship_state.load(host.places).node or host.node


def _check_rights(host: Host) -> None:
    for folder in (Path(host.places.var), Path(host.places.spool)):
        try:
            folder.stat()
        except FileNotFoundError:
            continue
        except PermissionError:
            allowed = False
        else:
            allowed = os.access(folder, os.W_OK | os.X_OK)
        if not allowed:
            raise SetupError(f"{folder}: only root may send and remove records; run as root")


def _show(done: "Shipped", to: Destination, host: Host, as_json: bool) -> None:
    if as_json:
        refused = [{"run_id": run_id, "why": why} for run_id, why in done.refused]
        told = {
            name: getattr(done, name) for name in ("sent", "acknowledged", "left", "plan", "plan_why", "why")
        }
        taken = {"refused": refused, "takes_over": done.taken}
        output.emit_json("ship", {"collector": to.url, "node": host.node, **told, **taken})
        return
    print(_sentence(done, to))
    if done.plan:
        print(f"The plan is now {done.plan}.")
    if done.taken:
        print(f"The collector carries out {_count(len(done.taken), 'drain')} that waited here.")
    for run_id, why in done.refused:
        output.warn(f"refused and set aside: {run_id}: {why}")
    if done.plan_why:
        output.warn(f"the collector's plan was not taken, the one that is here stays: {done.plan_why}")
    if done.why:
        output.warn(f"{_count(done.left, 'record')} still here: {done.why}")


def _sentence(done: "Shipped", to: Destination) -> str:
    if not done.sent and not done.why:
        return f"Nothing waits to be sent to {to.url}."
    sentence = f"{_count(done.acknowledged, 'record')} sent to {to.url} and acknowledged"
    return f"{sentence}, {len(done.refused)} refused." if done.refused else f"{sentence}."


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
