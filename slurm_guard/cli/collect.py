"""`sguard collect`: fetch the records of nodes by SSH into this host's store."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slurm_guard.cli import fleet, options, output
from slurm_guard.cli.host import Host
from slurm_guard.cli.wrapped import wrap
from slurm_guard.core.errors import SetupError

if TYPE_CHECKING:
    from slurm_guard.config.collect import Collect
    from slurm_guard.remote.pull import Pulled
    from slurm_guard.remote.target import Access

_SYSTEM_HOSTS = Path("/etc/ssh/ssh_known_hosts")


def collect(
    nodes: Annotated[
        str | None,
        typer.Option(
            "-w", "--nodes", metavar="HOSTLIST", help="These nodes, e.g. n[01-16,20]; default: the plan's."
        ),
    ] = None,
    root: options.Root = "/",
    as_json: options.Json = False,
) -> int:
    """Fetch the records of nodes by SSH into this host's store.

    For sites where nodes do not send by themselves. A node removes what this host has committed, and nothing
    before; its host key must be known (docs/collect.md). Ends with 1 if a node could not be reached, refused
    something or kept something, and names each.
    """
    from slurm_guard.cli.pulled import Into
    from slurm_guard.cli.results import bring_up_to_date
    from slurm_guard.remote.pull import pull_all
    from slurm_guard.store import open_store

    host = Host(root)
    names = fleet.expand(nodes) if nodes is not None else host.plan.all_nodes
    if not names:
        raise SetupError(f"no nodes to ask: {host.places.plan} names none; expected -w HOSTLIST")
    targets, access = ways(host, names)
    with open_store(host.places.database) as store:
        done = pull_all(targets, access, Into(store, host.plan.cluster).commit)
        bring_up_to_date(store)
    _show(done, host, as_json)
    return 1 if any(one.why or one.refused or one.left for one in done) else 0


def ways(host: Host, names: list[str]) -> tuple[list[Any], "Access"]:
    """Where each node is, and how it is asked for its records, by the configuration."""
    from slurm_guard.config import load
    from slurm_guard.config.collect import addresses_of
    from slurm_guard.remote.target import Access, Target

    config: Collect = load.require(load.read(host.places)).collect
    addresses = addresses_of(config.hosts)
    access = Access(
        command=config.command or _command(),
        known_hosts=_known_hosts(config, host),
        user=config.user,
        port=config.port,
        key=Path(host.places.below(config.key)) if config.key else None,
        parallel=config.parallel,
        connect_s=config.connect_s,
        auth_s=config.auth_s,
        transfer_s=config.transfer_s,
    )
    return [Target(name, addresses.get(name, name)) for name in names], access


def _known_hosts(config: "Collect", host: Host) -> tuple[Path, ...]:
    if config.known_hosts:
        return (Path(host.places.below(config.known_hosts)),)
    return (_SYSTEM_HOSTS, Path.home() / ".ssh/known_hosts")


def _command() -> str:
    """The sending side as it is installed here: nodes mostly have the same."""
    from slurm_guard.config.collect import PLAIN_COMMAND
    from slurm_guard.engine import send

    found = f"{sys.executable} -I -S {Path(send.__file__).resolve()}"
    if PLAIN_COMMAND.fullmatch(found) is None:
        raise SetupError(f"{found!r} has letters that mean something to a shell: set `command` in [collect]")
    return found


def _show(done: "list[Pulled]", host: Host, as_json: bool) -> None:
    totals = {name: sum(getattr(one, name) for one in done) for name in ("taken", "known", "left", "refused")}
    failed = [one.target.node for one in done if one.why]
    if as_json:
        told = {"failed": _fold(failed), "nodes": [_as_dict(one) for one in done]}
        output.emit_json("collect", {"store": host.places.database, **totals, **told})
        return
    reached = output.count(len(done) - len(failed), "node")
    records = output.count(totals["taken"], "record")
    print(f"{records} of {reached} taken, {totals['known']} known already, {totals['refused']} refused")
    for (why, remedy), names in _alike(done).items():
        _warn(f"{_fold(names)}: {why}{f'; {remedy}' if remedy else ''}")
    for one in done:
        if one.why and one.detail:
            _warn(f"{one.target.node}: {one.detail}")
        for run_id, why in one.reasons:
            _warn(f"{one.target.node}: refused, set aside there: {run_id or 'a record'}: {why}")


def _as_dict(one: "Pulled") -> dict[str, Any]:
    names = ("taken", "known", "left", "refused", "why", "remedy", "detail")
    told = {name: getattr(one, name) for name in names}
    reasons = [{"run_id": run_id, "why": why} for run_id, why in one.reasons]
    return {"node": one.target.node, "address": one.target.address, **told, "reasons": reasons}


def _alike(done: "list[Pulled]") -> dict[tuple[str, str], list[str]]:
    """The nodes that failed, by why and remedy."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in done:
        if one.why:
            found.setdefault((one.why, one.remedy), []).append(one.target.node)
    return found


def _fold(names: list[str]) -> str:
    from slurm_guard.slurm.hostlist import fold

    return fold(names) if names else ""


def _warn(text: str) -> None:
    output.warn("\n".join(wrap(output.printable(text), rest="  ", width=output.WIDTH - len("sguard: "))))
