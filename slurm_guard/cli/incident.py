"""`sguard incident show|ack|close`: one incident, and what people say of it."""

from typing import TYPE_CHECKING, Annotated

import typer

from slurm_guard.cli import options, output
from slurm_guard.cli.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurm_guard.store import Store
    from slurm_guard.store.incident_model import Incident

app = typer.Typer(no_args_is_help=True, help="Show one incident, acknowledge it or close it.")

Number = Annotated[int, typer.Argument(metavar="ID", min=1, help="Its number in `sguard incidents`.")]
_LONGEST = 500


@app.command("show")
def show(number: Number, root: options.Root = "/", as_json: options.Json = False) -> int:
    """Show an incident: where, since when, jobs, what was done.

    Ends with 1 if it is open.
    """
    from slurm_guard.cli.results import open_results
    from slurm_guard.report import incident as report

    with open_results(Host(root)) as store:
        page = report.build(store, number)
    if as_json:
        output.emit_json("incident", page)
    else:
        print(report.text(page), end="")
    return 1 if page["state"] == "open" else 0


@app.command("ack")
def acknowledge(
    number: Number,
    message: Annotated[
        str, typer.Option("-m", "--message", metavar="TEXT", help="What others should know.")
    ] = "",
    root: options.Root = "/",
    as_json: options.Json = False,
) -> None:
    """Say that somebody looks after an incident.

    It stays acknowledged until it is over. One node's incident that proves to be many nodes' is open again.
    """
    from slurm_guard.store import incidents

    _say(incidents.acknowledge, number, message, Host(root), as_json)


@app.command("close")
def close(
    number: Number,
    message: Annotated[str, typer.Option("-m", "--message", metavar="TEXT", help="Why it is over.")],
    root: options.Root = "/",
    as_json: options.Json = False,
) -> None:
    """Call an incident over that no run can prove gone.

    What is seen of it from now on is a new incident. Nothing is resumed: `sguard resume` does that.
    """
    from slurm_guard.store import incidents

    _say(incidents.close, number, message, Host(root), as_json)


def _say(
    what: "Callable[[Store, int, str, str, int], Incident]",
    number: int,
    message: str,
    host: Host,
    as_json: bool,
) -> None:
    """Put on record what a person says of an incident."""
    import time

    from slurm_guard.actions import person
    from slurm_guard.cli.results import open_results

    text = output.printable(message)[:_LONGEST]
    with open_results(host) as store:
        try:
            one = what(store, number, person(), text, round(time.time() * 1000))
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="ID") from None
    if as_json:
        said = {"id": one.id, "state": one.state, "by": one.closed_by or one.acknowledged_by}
        output.emit_json("incident_word", {**said, "text": text or None})
    else:
        print(f"incident {one.id} is {one.state}")
