"""What all commands have in common."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from slurm_guard.cli.main import click_command

if TYPE_CHECKING:
    from collections.abc import Iterator

CLI = Path(__file__).resolve().parents[3] / "slurm_guard/cli"
#: Slurm's own letters mean the same everywhere.
LETTERS = {"-p": "--partition", "-M": "--clusters", "-S": "--start", "-E": "--end"}


def leaves(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from leaves(child, f"{path} {name}")
    else:
        yield path, command


COMMANDS = dict(leaves(click_command(), "sguard"))


def options(command: click.Command) -> list[list[str]]:
    return [one.opts for one in command.params if isinstance(one, click.Option)]


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_answers_in_json_and_below_a_root(path: str) -> None:
    known = {name for names in options(COMMANDS[path]) for name in names}
    assert {"--json", "--root"} <= known


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_and_option_says_what_it_is_for(path: str) -> None:
    command = COMMANDS[path]
    assert command.help
    assert all(one.help for one in command.params if isinstance(one, click.Option))


@pytest.mark.parametrize("path", COMMANDS)
def test_the_help_lists_every_argument_once_with_what_it_is_for(path: str) -> None:
    command = COMMANDS[path]
    text = command.get_help(click.Context(command, info_name=path, terminal_width=80))
    names = [
        one.make_metavar(click.Context(command)) for one in command.params if isinstance(one, click.Argument)
    ]
    listed = [line for line in text.splitlines() if any(line.startswith(f"  {name}  ") for name in names)]
    assert len(listed) == len(names), text


@pytest.mark.parametrize("group", ["check", "config"])
def test_no_command_s_line_in_the_help_of_its_group_is_cut(group: str) -> None:
    command = click_command().get_command(click.Context(click_command()), group)
    assert command is not None
    assert "..." not in command.get_help(click.Context(command, terminal_width=80)).partition("Commands:")[2]


@pytest.mark.parametrize("path", COMMANDS)
def test_slurms_letters_mean_what_they_mean_in_slurm(path: str) -> None:
    for names in options(COMMANDS[path]):
        for letter, long in LETTERS.items():
            assert letter not in names or long in names


def test_no_command_module_imports_anything_heavy_when_it_is_loaded() -> None:
    heavy = {"sqlalchemy", "pydantic", "rich", "ClusterShell"}
    for path in CLI.glob("*.py"):
        if path.stem in ("job_lookup", "results"):
            continue  # imported by commands when they need the store
        for node in ast.parse(path.read_text()).body:
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not {name.partition(".")[0] for name in names} & heavy, path.name
