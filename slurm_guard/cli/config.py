"""`sguard config`: check, show and apply the configuration."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slurm_guard.core.paths import Places

if TYPE_CHECKING:
    from slurm_guard.config.apply import Applied
    from slurm_guard.config.shown import Shown

app = typer.Typer(help="Check, show and apply the configuration.", no_args_is_help=True)

Root = Annotated[str, typer.Option("--root", metavar="DIR", help="Work below this folder, e.g. a node image.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Origin = Annotated[bool, typer.Option("--origin", help="Say for each value which file it comes from.")]


@app.command()
def check(root: Root = "/", as_json: Json = False) -> None:
    """Report everything that is wrong with the configuration, in one go."""
    from slurm_guard.config import load

    reading = load.read(Places(root))
    if as_json:
        answer: dict[str, Any] = {
            "schema": "1.0",
            "files": reading.files,
            "problems": [problem.as_dict() for problem in reading.problems],
            "notes": reading.notes,
        }
        typer.echo(json.dumps(answer, indent=2))
        raise typer.Exit(_exit_code(bool(reading.problems)))
    _tell(reading.notes)
    config = load.require(reading)
    typer.echo(f"ok: {len(reading.files)} file(s), {len(config.classes)} node class(es), {len(config.modes)} mode rule(s)")


def _exit_code(wrong: bool) -> int:
    from slurm_guard.core.errors import ConfigError

    return ConfigError.exit_code if wrong else 0


def _tell(notes: list[str]) -> None:
    for note in notes:
        typer.echo(f"note: {note}", err=True)


@app.command()
def show(root: Root = "/", origin: Origin = False, as_json: Json = False) -> None:
    """Show every setting as it is in force, built-in defaults included."""
    from slurm_guard.config import load, shown

    reading = load.read(Places(root))
    load.require(reading)
    settings = shown.settings(reading)
    if as_json:
        values = [one._asdict() for one in settings]
        answer = {"schema": "1.0", "files": reading.files, "settings": values, "notes": reading.notes}
        typer.echo(json.dumps(answer, indent=2))
        return
    _tell(reading.notes)
    typer.echo("\n".join(_line(one, origin) for one in settings))


def _line(one: Shown, origin: bool) -> str:
    text = f"{one.key} = {'(none)' if one.value is None else json.dumps(one.value, ensure_ascii=False)}"
    return f"{text}  # {one.origin}" if origin else text


@app.command()
def apply(root: Root = "/", as_json: Json = False) -> None:
    """Compile the configuration to the node plan that the hooks read; nothing is written if anything is wrong."""
    from slurm_guard.config.apply import apply as apply_config

    applied = apply_config(Places(root))
    if as_json:
        typer.echo(json.dumps(applied.as_dict(), indent=2))
        return
    _tell(applied.notes)
    typer.echo(_summary(applied))
    for change in applied.changes:
        typer.echo(f"  {change}")


def _summary(applied: Applied) -> str:
    from slurm_guard.config.apply import count_classes

    bundle = applied.bundle
    size = f"{len(bundle['nodes'])} node(s) in {count_classes(bundle)} class(es)"
    state = "unchanged, marked as fresh" if not applied.changed else "written"
    return f"plan {bundle['hash']} {state}: {size}, {applied.path}"
