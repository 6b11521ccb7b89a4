"""`sguard config check|show|apply`: the configuration and the plan that is made from it."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from slurm_guard.cli import options, output
from slurm_guard.cli.host import Host
from slurm_guard.core.errors import ConfigError

if TYPE_CHECKING:
    from slurm_guard.config.apply import Applied
    from slurm_guard.config.shown import Shown

app = typer.Typer(no_args_is_help=True, help="Check, show and apply the configuration.")

Origin = Annotated[bool, typer.Option("--origin", help="Say for each value where it comes from.")]


@app.command()
def check(root: options.Root = "/", as_json: options.Json = False) -> int:
    """Report everything that is wrong with the configuration, in one go."""
    from slurm_guard.config import load

    reading = load.read(Host(root).places)
    if as_json:
        problems = [problem.as_dict() for problem in reading.problems]
        output.emit_json(
            "config_check", {"files": reading.files, "problems": problems, "notes": reading.notes}
        )
        return ConfigError.exit_code if problems else 0
    _tell(reading.notes)
    config = load.require(reading)
    counts = f"{len(config.classes)} class(es), {len(config.modes)} mode rule(s)"
    print(f"ok: {len(reading.files)} file(s), {counts}")
    return 0


@app.command()
def show(root: options.Root = "/", origin: Origin = False, as_json: options.Json = False) -> None:
    """Show every setting that is in force, built-in defaults included."""
    from slurm_guard.config import load, shown

    reading = load.read(Host(root).places)
    load.require(reading)
    settings = shown.settings(reading)
    if as_json:
        values = [one._asdict() for one in settings]
        output.emit_json("config", {"files": reading.files, "settings": values, "notes": reading.notes})
        return
    _tell(reading.notes)
    print("\n".join(_line(one, origin) for one in settings))


@app.command()
def apply(root: options.Root = "/", as_json: options.Json = False) -> None:
    """Make the plan that hooks read; if anything is wrong with the configuration, write nothing."""
    from slurm_guard.config.apply import apply as apply_config

    applied = apply_config(Host(root).places)
    if as_json:
        output.emit_json("config_apply", applied.as_dict())
        return
    _tell(applied.notes)
    print(_summary(applied))
    for change in applied.changes:
        print(f"  {change}")


def _tell(notes: list[str]) -> None:
    for note in notes:
        output.warn(f"note: {note}")


def _line(one: "Shown", origin: bool) -> str:
    value = "(none)" if one.value is None else json.dumps(one.value, ensure_ascii=False)
    text = f"{one.key} = {value}"
    return f"{text}  # {one.origin}" if origin else text


def _summary(applied: "Applied") -> str:
    from slurm_guard.config.apply import count_classes

    bundle = applied.bundle
    size = f"{len(bundle['nodes'])} node(s) in {count_classes(bundle)} class(es)"
    state = "written" if applied.changed else "unchanged, marked as fresh"
    return f"plan {bundle['hash']} {state}: {size}, {applied.path}"
