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
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Only if a full healthcheck, run on it now as a job, proves it clean."),
    ] = False,
    ssh: Annotated[
        bool,
        typer.Option("--ssh", help="With --verify: by SSH and not as a job (settings of [collect])."),
    ] = False,
    root: options.Root = "/",
    as_json: options.Json = False,
) -> int:
    """Return a node that slurm_guard drained to service.

    Only a drain that is slurm_guard's own, with its reason unchanged, is ended; `--force` does not change
    that. For anybody else's drain use scontrol. Ends with 1, and does nothing, while faults are open.
    With `--verify` a reservation keeps everybody else off the node until it is proven or drained again.
    """
    from slurm_guard.report.outlook import open_faults

    if ssh and not verify:
        raise typer.BadParameter("expected --verify, too", param_hint="--ssh")
    host = Host(root)
    host.require_plan()
    known = _known(host, node)
    still = open_faults(known)
    holding = [one for one in still if not verify or _is_event(one)]
    if holding and not force:
        return _stays(node, holding, as_json)
    written = known.drained_by.reason if known is not None and known.drained_by is not None else None
    if verify:
        from slurm_guard.cli import resume_proven

        checks = frozenset(one.partition(" ")[0].partition(".")[0] for one in still)
        return resume_proven.run(host, node, written, checks, ssh=ssh, as_json=as_json)
    from slurm_guard import actions
    from slurm_guard.cli.door import door

    done = actions.resume(door(host), host.places, host.plan, node, written)
    if done.unrecorded:
        output.warn(done.unrecorded)
    actions.ensure(done.outcome)
    if as_json:
        output.emit_json("resume", {"node": node, "written": done.outcome.written, "why": done.outcome.why})
    else:
        print(actions.in_words(node, done.outcome))
    return 0


def _stays(node: str, holding: list[str], as_json: bool) -> int:
    why = f"{', '.join(holding)} {'is' if len(holding) == 1 else 'are'} open on record"
    output.warn(f"{node} stays drained: {why}")
    output.warn("repair it and wait for clean healthchecks, or say with --force that it is repaired")
    if as_json:
        output.emit_json("resume", {"node": node, "written": False, "why": why})
    return 1


def _is_event(fault: str) -> bool:
    """True for what happened once: no later healthcheck can prove it gone, only a reboot or a person."""
    from slurm_guard.core import check as registry

    name, _, code = fault.partition(" ")[0].partition(".")
    try:
        return registry.load(name).fault(code).event
    except Exception:  # noqa: BLE001 - a site's check that is gone, or broken, proves nothing
        return True


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
