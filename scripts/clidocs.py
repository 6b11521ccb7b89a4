"""Pages about the command line: one Markdown page, and a man page per command, from the commands."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import click

from slurm_guard import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDTH = 80


def walk(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """A command and all below it, in the order of the help."""
    yield command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                yield from walk(child, new_context(child, name, context))


def new_context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    """A context in which a command formats its help at the docs' width."""
    width = {"terminal_width": WIDTH, "max_content_width": WIDTH}
    return click.Context(command, info_name=name, parent=parent, **width, **command.context_settings)


def commands() -> list[tuple[click.Command, click.Context]]:
    """Every command of `sguard`, the root first."""
    from slurm_guard.cli.main import click_command

    root = click_command()
    return list(walk(root, new_context(root, "sguard", None)))


def help_text(command: click.Command, context: click.Context) -> str:
    """The help as the terminal shows it, without trailing blanks."""
    lines = click.Command.get_help(command, context).splitlines()
    return "\n".join(line.rstrip() for line in lines).strip()


def cli_page(notice: str) -> str:
    """All commands' help in one page."""
    sections = [
        f"## `{context.command_path}`\n\n```\n{help_text(command, context)}\n```\n"
        for command, context in commands()
    ]
    return f"{notice}# Commands\n\n" + "\n".join(sections)


def roff(text: str) -> str:
    """Text as roff takes it literally; an empty line starts a paragraph."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    lines = ["\\&" + line if line.startswith((".", "'")) else line or ".PP" for line in escaped.splitlines()]
    return "\n".join(lines)


def entries_of(kind: type[click.Parameter], command: click.Command, context: click.Context) -> str:
    """Options or arguments as tagged paragraphs."""
    entries = []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, kind) else None
        if record is not None:
            entries.append(f".TP\n.B {roff(record[0])}\n{roff(record[1])}")
    return "\n".join(entries)


def man_page(command: click.Command, context: click.Context) -> str:
    """One man page in section 1."""
    name = context.command_path.replace(" ", "-")
    text = inspect.cleandoc(command.help or "").replace("\b\n", "").replace("\f", "")
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [
        f'.TH "{name.upper()}" "1" "" "slurm_guard {__version__}" "slurm_guard"',
        f".SH NAME\n{roff(name)} \\- {roff(command.get_short_help_str(limit=200))}",
        f".SH SYNOPSIS\n.B {roff(context.command_path)}\n{roff(usage)}",
        f".SH DESCRIPTION\n{roff(text)}",
    ]
    for title, kind in (("ARGUMENTS", click.Argument), ("OPTIONS", click.Option)):
        entries = entries_of(kind, command, context)
        parts += [f".SH {title}\n{entries}"] if entries else []
    if isinstance(command, click.Group):
        names = list(command.list_commands(context))
        see = ",\n".join(f".BR {roff(name)}\\-{roff(child)} (1)" for child in names)
        parts.append(f".SH SEE ALSO\n{see}")
    else:
        parts.append(
            ".SH EXIT STATUS\n0 healthy or done, 1 findings, 2 usage, 10 and more: see docs/exit\\-codes.md."
        )
    return "\n".join(parts) + "\n"


def pages(notice: str) -> dict[str, str]:
    """`cli.md` and the man pages, by their path below docs/."""
    texts = {"cli.md": cli_page(notice)}
    for command, context in commands():
        texts[f"man/{context.command_path.replace(' ', '-')}.1"] = man_page(command, context)
    return texts
