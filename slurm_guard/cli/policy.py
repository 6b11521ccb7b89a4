"""`sguard policy show|test|replay`: what is done for which fault, on which node, and what would have been."""

from typing import TYPE_CHECKING, Annotated

import typer

from slurm_guard.cli import options, output
from slurm_guard.cli.host import Host
from slurm_guard.core.context import HOOKS

if TYPE_CHECKING:
    from slurm_guard.config.candidate import Candidate
    from slurm_guard.store import Store

app = typer.Typer(no_args_is_help=True, help="Show and try what is done for which fault.")

Node = Annotated[
    str | None, typer.Option("-w", "--node", metavar="NODE", help="This node's policy; default: this host's.")
]


@app.command("show")
def show(node: Node = None, root: options.Root = "/", as_json: options.Json = False) -> None:
    """Show every fault of a node: its tier, and what each hook does for it.

    Faults that are treated alike stand together, gravest first, a line for each check.
    """
    from slurm_guard.report import policy

    host = _host(root, node)
    faults = policy.overview(host.plan)
    if as_json:
        content = {"node": host.node, "class": host.plan.node_class, "plan": host.plan.hash or None}
        listed = [one.as_dict() for one in faults]
        new = {name: int(until) for name, until in host.plan.new_checks.items()}
        output.emit_json("policy", {**content, "faults": listed, "rules": host.plan.rules, "new_checks": new})
        return
    from slurm_guard.report.policy_text import overview_text

    of_class = f", class {host.plan.node_class}" if host.plan.node_class else ", in no class"
    print(f"policy of {host.node}{of_class}\n")
    print(overview_text(host.plan, faults, output.WIDTH))


@app.command("test")
def try_one(  # noqa: PLR0913, PLR0917 - one argument for each option
    fault: Annotated[str, typer.Option("--fault", metavar="FAULT", help="For example gpu_xid.79.")],
    device: Annotated[
        str, typer.Option("--device", metavar="NAME", help="The device, as findings name it.")
    ] = "gpu0",
    node: Node = None,
    hook: Annotated[
        str,
        typer.Option(
            "--hook", metavar="HOOK", help=f"One of {', '.join(HOOKS)}.", autocompletion=options.hooks
        ),
    ] = "epilog",
    seen: Annotated[
        int, typer.Option("--seen", min=1, max=1000, help="Runs in a row that saw it, this one included.")
    ] = 1,
    lasting: Annotated[
        float, typer.Option("--lasting", min=0, metavar="SECONDS", help="How long it has been seen.")
    ] = 0.0,
    began: Annotated[
        int, typer.Option("--began", min=1, max=1000, help="How often it began lately, this one included.")
    ] = 1,
    at: Annotated[str, typer.Option("--at", metavar="HH:MM", help="The time of day.")] = "12:00",
    idle: Annotated[bool, typer.Option("--idle", help="No job is on the node (healthcheck).")] = False,
    others: Annotated[
        bool, typer.Option("--others", help="The device was not given to this hook's job.")
    ] = False,
    root: options.Root = "/",
    as_json: options.Json = False,
) -> None:
    """Say what would be done for one fault, and why. Nothing is done."""
    from slurm_guard.cli.check import describe, find
    from slurm_guard.report import policy

    if hook not in HOOKS:
        raise typer.BadParameter(f"{hook!r} is not a hook; expected {', '.join(HOOKS)}", param_hint="--hook")
    host = _host(root, node)
    name, _, code = fault.partition(".")
    described = describe(find(name), host, code)
    if not code and described["faults"]:
        known = [one["fault"] for one in described["faults"]]
        hint = f"for example {known[0]}; `sguard check show {name}` lists all {len(known)}"
        raise typer.BadParameter(
            f"{fault} is a check with several faults; name one, {hint}", param_hint="--fault"
        )
    case = policy.Case(fault, device, hook, seen, lasting, began, not others, idle, _minute(at))
    answer = policy.examine(host.plan, case)
    if as_json:
        output.emit_json("policy_test", answer)
        return
    from slurm_guard.report.policy_text import case_text

    print(case_text(answer, output.WIDTH))


@app.command("replay")
def replay(
    start: options.Start = None,
    end: options.End = None,
    nodes: options.Nodes = None,
    cluster: options.Cluster = None,
    config: Annotated[
        str | None,
        typer.Option(
            "--config", metavar="PATH", help="Settings that are not applied: a file, or a folder like etc/."
        ),
    ] = None,
    enforce: Annotated[
        bool, typer.Option("--enforce", help="Take what a mode only observes as enforced; off stays off.")
    ] = False,
    root: options.Root = "/",
    as_json: options.Json = False,
) -> None:
    """Say what would have been done on the records of a time, and was not.

    Takes the plan as it is, or other settings, from `now-7days` on, or between -S and -E. The budget is held
    over all nodes, also with -w, which only chooses whom to tell of. Nothing is done.
    """
    from slurm_guard import replay as service
    from slurm_guard.cli import fleet
    from slurm_guard.cli.results import open_results
    from slurm_guard.cli.timeforms import milliseconds

    host = Host(root)
    names = fleet.expand(nodes)
    since, until = milliseconds(start or "now-7days", "-S"), milliseconds(end or "now", "-E")
    if since is None or until is None or since >= until:
        raise typer.BadParameter("the time ends before it begins", param_hint="-S, -E")
    candidate = _candidate(host, config)
    with open_results(host) as store:
        fleet.ensure_cluster(store, cluster, host)
        question = service.Question(
            candidate.bundle,
            since,
            until,
            cluster or str(candidate.bundle.get("cluster") or "") or _only_cluster(store),
            candidate.partitions if cluster in (None, host.plan.cluster) else {},
            None if names is None else frozenset(names),
            enforce,
        )
        found = service.replay(store, question)
    if as_json:
        output.emit_json("policy_replay", found)
        return
    from slurm_guard.report.replay_text import text

    print(text(found, output.WIDTH), end="")


def _candidate(host: Host, config: str | None) -> "Candidate":
    """The plan of this host, or settings that are not applied."""
    from slurm_guard.config import candidate
    from slurm_guard.config.apply import read_bundle

    if config is not None:
        found = candidate.read(host.places, config)
        for note in found.notes:
            output.warn(note)
        return found
    if host.plan_note():
        output.warn(host.plan_note())
    bundle = read_bundle(host.places.plan) or {}
    return candidate.Candidate(bundle, candidate.partitions(host.places, host.plan), [])


def _only_cluster(store: "Store") -> str:
    """The cluster of the records where no plan names one; it must be clear which."""
    from slurm_guard.store import history

    with store.read() as connection:
        known = sorted({of for _, of, _ in history.nodes(connection)} - {""})
    if len(known) > 1:
        raise typer.BadParameter(f"choose one of {', '.join(known)}", param_hint="-M")
    return known[0] if known else ""


def _minute(text: str) -> int:
    from slurm_guard.core.rules import minutes

    try:
        return minutes(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--at") from None


def _host(root: str, node: str | None) -> Host:
    host = Host(root, node)
    for note in (host.plan_note(), host.class_note()):
        if note:
            output.warn(note)
    return host
