"""What a wrong command line is answered with: usage, where to read on, and the nearest right word, once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from slurm_guard.cli.wrapped import for_stderr

if TYPE_CHECKING:
    import click

#: Words that people try, and where what they look for is.
MEANT = {
    "apply": "config apply",
    "explain": "check show",
    "help": "--help",
    "history": "drains --history",
    "list": "check list",
    "run": "check run",
    "show": "check show",
    "status": "nodes",
    "test": "policy test",
    "version": "--version",
}
_HINT = " Did you mean "


def show(error: click.ClickException) -> None:
    """Print a usage error on stderr, as click does; in lines of 80 columns where a person reads it."""
    context = getattr(error, "ctx", None)
    if context is None or type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    lines = [context.get_usage(), f"Try '{context.command_path} --help' for help.", ""]
    print("\n".join([*lines, *for_stderr(said(error), "Error: ")]), file=sys.stderr)


def said(error: click.ClickException) -> str:
    """The message, with the nearest right word once: typer and click both add it, click sorts them."""
    near = getattr(error, "possibilities", None)
    if near and hasattr(error, "option_name"):
        return f"{error.message}{_HINT}{near[0]}?"
    what, *hints = error.format_message().split(_HINT)
    return f"{what}{_HINT}{hints[0]}" if hints else what
