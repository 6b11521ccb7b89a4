"""`sguard config check|show|apply`: the configuration and the plan that is made from it."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from slurm_guard.cli import options, output
from slurm_guard.cli.host import Host
from slurm_guard.cli.wrapped import WIDTH, wrap
from slurm_guard.core.errors import ConfigError, SetupError

if TYPE_CHECKING:
    from slurm_guard.config.apply import Applied
    from slurm_guard.config.shown import Shown

app = typer.Typer(no_args_is_help=True, help="Check, show and apply the configuration.")

Origin = Annotated[bool, typer.Option("--origin", help="Say for each value where it comes from.")]


@app.command()
def check(root: options.Root = "/", as_json: options.Json = False) -> int:
    """Report everything that is wrong with the configuration, in one go."""
    from slurm_guard.config import host, load

    places = Host(root).places
    reading = load.read(places)
    if reading.config is not None:
        load.check_partitions(reading, host.look(places, reading.config).partitions)
    if as_json:
        problems = [problem.as_dict() for problem in reading.problems]
        output.emit_json(
            "config_check", {"files": reading.files, "problems": problems, "notes": reading.notes}
        )
        return ConfigError.exit_code if problems else 0
    _tell(reading.notes)
    config = load.require(reading)
    counts = (
        output.count(len(reading.files), "file"),
        output.count(len(config.classes), "class", "classes"),
        *([output.count(len(config.rules), "rule")] if config.rules else []),
        output.count(len(config.modes), "mode rule"),
    )
    print(f"ok: {', '.join(counts)}")
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
    if origin and reading.files:
        print(f"# files in {reading.folder}")
    for one in settings:
        print("\n".join(_lines(one, reading.folder if origin else None)))


@app.command()
def apply(
    approve_new: Annotated[
        bool,
        typer.Option("--approve-new", help="Checks that are new to the plan may act at once, as modes say."),
    ] = False,
    root: options.Root = "/",
    as_json: options.Json = False,
) -> None:
    """Compile the configuration to the plan that hooks read.

    If anything is wrong with it, nothing is written. A check that the plan before did not have only
    observes for `new_check_s` (a day), whatever its mode.
    """
    from slurm_guard.config.apply import apply as apply_config

    applied = apply_config(Host(root).places, approve_new=approve_new)
    if as_json:
        output.emit_json("config_apply", applied.as_dict())
        return
    _tell(applied.notes)
    print("\n".join(wrap(_summary(applied), rest="  ")))
    for change in (*applied.changes, *applied.newcomers):
        print("\n".join(wrap(change, "  ", "    ")))


@app.command()
def client(root: options.Root = "/", as_json: options.Json = False) -> None:
    """Print the file by which users' `sguard job` finds the collector.

    It is /etc/slurm-guard/client.json, for login nodes too; nothing in it is secret.
    """
    from slurm_guard.config import client as clients
    from slurm_guard.config import load

    places = Host(root).places
    wanted = load.require(load.read(places)).collector
    if not wanted.url:
        raise SetupError(f"{places.config}: no collector; expected `url` in [collector]")
    content = clients.content(wanted).decode()
    if as_json:
        output.emit_json("config_client", {"path": clients.path_of(places), "content": json.loads(content)})
    else:
        print(content, end="")


def _tell(notes: list[str]) -> None:
    """Remarks on stderr, wrapped; `sguard: ` comes before each line."""
    for note in notes:
        output.warn("\n".join(wrap(note, "note: ", "  ", WIDTH - len("sguard: "))))


def _lines(one: "Shown", folder: str | None) -> list[str]:
    """A setting as TOML; a list may take several lines. With a folder, its origin, relative to that."""
    text = f"{one.key} = {json.dumps(one.value, ensure_ascii=False)}"
    if one.value is None:  # TOML has no word for it
        text = f"# {one.key} is not set"
    # Only a list may be broken: a blank in a text is part of it.
    whole = wrap(text, rest="    ") if isinstance(one.value, list) else [text]
    if folder is None:
        return whole
    comment = f"  # {one.origin.removeprefix(f'{folder}/')}"
    if len(whole[-1] + comment) > WIDTH:
        return [*whole, f"  {comment}"]
    return [*whole[:-1], whole[-1] + comment]


def _summary(applied: "Applied") -> str:
    from slurm_guard.config.apply import count_classes, count_strangers

    bundle, strangers = applied.bundle, count_strangers(applied.bundle)
    size = output.count(len(bundle["nodes"]) - strangers, "node")
    size += f" in {output.count(count_classes(bundle), 'class', 'classes')}"
    others = f" and {strangers} in none" if strangers else ""
    state = "written" if applied.changed else "unchanged, marked as fresh"
    return f"plan {bundle['hash']} {state}: {size}{others}, {applied.path}"
