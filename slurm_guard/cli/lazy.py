"""A command group that imports a command's module only when that command is used.

`sguard --help` must cost no more than Python and click: help lines come from the table below, which a test
compares with the modules' own words.
"""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from typer.core import TyperArgument, TyperGroup
from typer.models import ArgumentInfo

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem


class Entry(NamedTuple):
    """Where a command lives, and its line in the help. `attribute` is a typer app or a function."""

    module: str
    attribute: str
    help: str


#: Both spellings of the request for help, of every command.
HELP = {"help_option_names": ["-h", "--help"]}

#: In the order of the help: questions first, then what changes a node, then set-up.
COMMANDS: dict[str, Entry] = {
    "job": Entry("job", "job", "Say what was wrong with a job, whose fault it was and what to do."),
    "node": Entry("node", "node", "Show what is known of one node: faults, jobs, actions."),
    "nodes": Entry("nodes", "nodes", "List nodes with their last result."),
    "drains": Entry(
        "drains", "drains", "List nodes that slurm_guard drained or should have, and what is next."
    ),
    "incidents": Entry(
        "incidents", "incidents", "List incidents: findings of one cause, over time, devices and nodes."
    ),
    "incident": Entry("incident", "app", "Show one incident, acknowledge it or close it."),
    "drain": Entry("drain", "drain", "Drain a node, never overwriting anybody else's reason."),
    "resume": Entry("resume", "resume", "Return a node that slurm_guard drained to service."),
    "ready": Entry("ready", "ready", "Say whether this node is fit for jobs, before slurmd starts."),
    "check": Entry("check", "app", "List, explain and run health checks."),
    "policy": Entry("policy", "app", "Show and try what is done for which fault."),
    "ingest": Entry("ingest", "ingest", "Take run records of one or many nodes into the store."),
    "collect": Entry("collect", "collect", "Fetch the records of nodes by SSH into this host's store."),
    "ship": Entry("ship", "ship", "Send this node's records to the collector now, and fetch its plan."),
    "serve": Entry("serve", "serve", "Take the records of all nodes, and give them their plan."),
    "config": Entry("config", "app", "Check, show and apply the configuration."),
    "doctor": Entry("doctor", "doctor", "Look for what keeps slurm_guard from working on this host."),
    "init": Entry("init", "init", "Set slurm_guard up on this host, showing every change first."),
}


class LazyGroup(TyperGroup):
    """The root command: knows its commands by name, imports them on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now; None if there is none."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(f"slurm_guard.cli.{entry.module}")
        return as_command(cmd_name, getattr(module, entry.attribute))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The help's list of commands, from the table: nothing is imported."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or fail with the nearest names."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            import difflib

            from slurm_guard.cli.usage import MEANT

            near = [MEANT[name]] if name in MEANT else difflib.get_close_matches(name, COMMANDS)
            hint = f" Did you mean {', '.join(near)}?" if near else ""
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete command names from the table, options as every command does."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        from click.shell_completion import CompletionItem

        names = ((name, entry.help) for name, entry in COMMANDS.items() if name.startswith(incomplete))
        return [CompletionItem(name, help=text) for name, text in names]


def as_command(name: str, found: Any) -> click.Command:
    """A click command from a typer app, or from a function with typer's annotations."""
    app = found
    if not isinstance(app, typer.Typer):
        app = typer.Typer()
        app.command(name)(found)
    app.rich_markup_mode = None
    app.pretty_exceptions_enable = False
    # typer has no public switch for this after construction.
    app._add_completion = False
    command = typer.main.get_command(app)
    command.name = name
    _restore_help(command)
    return command


def _nothing(_context: click.Context, _formatter: click.HelpFormatter) -> None:
    """In the place of a section of the help that is there already."""


def _restore_help(command: click.Command) -> None:
    """Give arguments the help that is written at the parameter: click 8.5 resets what typer has set.

    typer lists them in the help, so that click 8.5, which lists them too by now, must not.
    """
    for child in getattr(command, "commands", {}).values():
        _restore_help(child)
    command.context_settings = {**command.context_settings, **HELP}
    if command.callback is None:
        return
    vars(command)["format_arguments"] = _nothing
    written = inspect.signature(inspect.unwrap(command.callback)).parameters
    for param in command.params:
        if not isinstance(param, TyperArgument) or param.help or param.name not in written:
            continue
        notes = getattr(written[param.name].annotation, "__metadata__", ())
        param.help = next((note.help for note in notes if isinstance(note, ArgumentInfo)), None)
