"""`sguard drain`: take a node out of service by hand."""

from typing import Annotated

import typer

from slurm_guard.cli import options, output
from slurm_guard.cli.host import Host
from slurm_guard.core import plan as plans


def drain(
    node: Annotated[str, typer.Argument(metavar="NODE", help="One NodeName.")],
    reason: Annotated[
        list[str],
        typer.Argument(metavar="FAULT|TEXT...", help="A fault, e.g. gpu_xid.79, or a text of yours."),
    ],
    device: Annotated[
        str, typer.Option("--device", metavar="DEVICE", help="The fault's device, e.g. gpu3 or /scratch.")
    ] = "",
    root: options.Root = "/",
    as_json: options.Json = False,
) -> None:
    """Drain a node, never overwriting anybody else's reason.

    With a FAULT, and its device by --device, the reason is slurm_guard's own (`SG:gpu_xid.79 gpu3`), and
    `sguard resume` ends the drain. With a TEXT the reason is yours: slurm_guard never touches it
    again. Who drained is put on record.
    """
    from slurm_guard import actions
    from slurm_guard.cli.door import door
    from slurm_guard.core.check import names

    host = Host(root)
    host.require_plan()
    expected = plans.load(host.places.plan, node).expected
    try:
        order = actions.wanted(reason, device, names(), expected)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="FAULT|TEXT") from None
    done = actions.drain(door(host), host.places, host.plan, node, order)
    if done.unrecorded:
        output.warn(done.unrecorded)
    actions.ensure(done.outcome)
    if as_json:
        output.emit_json(
            "drain",
            {"node": node, "reason": order.reason, "written": done.outcome.written, "why": done.outcome.why},
        )
    else:
        print(actions.in_words(node, done.outcome))
