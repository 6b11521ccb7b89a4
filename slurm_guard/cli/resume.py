"""`sguard resume`: return a node to service by hand."""

from typing import TYPE_CHECKING, Annotated

import typer

from slurm_guard.cli import options, output
from slurm_guard.cli.host import Host
from slurm_guard.core.errors import GuardError

if TYPE_CHECKING:
    from slurm_guard.store.model import NodeState


def resume(
    node: Annotated[str, typer.Argument(metavar="NODE", help="One NodeName.")],
    force: Annotated[
        bool, typer.Option("--force", help="Also while its faults are open on record: you repaired them.")
    ] = False,
    root: options.Root = "/",
    as_json: options.Json = False,
) -> int:
    """Return a node that slurm_guard drained to service.

    Only a drain that is slurm_guard's own, with its reason unchanged, is ended; `--force` does not change
    that. For anybody else's drain use scontrol. Ends with 1, and does nothing, while faults are open.
    """
    from slurm_guard import actions
    from slurm_guard.cli.door import door
    from slurm_guard.report.outlook import open_faults

    host = Host(root)
    host.require_plan()
    known = _known(host, node)
    still = open_faults(known)
    if still and not force:
        why = f"{', '.join(still)} {'is' if len(still) == 1 else 'are'} open on record"
        output.warn(f"{node} stays drained: {why}")
        output.warn("repair it and wait for clean healthchecks, or say with --force that it is repaired")
        if as_json:
            output.emit_json("resume", {"node": node, "written": False, "why": why})
        return 1
    written = known.drained_by.reason if known is not None and known.drained_by is not None else None
    done = actions.resume(door(host), host.places, host.plan, node, written)
    if done.unrecorded:
        output.warn(done.unrecorded)
    actions.ensure(done.outcome)
    if as_json:
        output.emit_json("resume", {"node": node, "written": done.outcome.written, "why": done.outcome.why})
    else:
        print(actions.in_words(node, done.outcome))
    return 0


def _known(host: Host, node: str) -> "NodeState | None":
    """What is on record of the node; without readable results, nothing."""
    from slurm_guard.cli.fleet import known_node
    from slurm_guard.cli.results import open_results

    try:
        with open_results(host) as store:
            return known_node(store, node)
    except GuardError as error:
        output.warn(str(error))
        return None
