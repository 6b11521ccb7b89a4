"""`sguard init`: a first configuration, the shims' places, the lines for slurm.conf."""

from typing import TYPE_CHECKING, Annotated

import typer

from slurm_guard.cli import options, output
from slurm_guard.cli.host import Host
from slurm_guard.cli.wrapped import wrap

if TYPE_CHECKING:
    from slurm_guard.doctor.setup import Setup


def init(
    root: options.Root = "/",
    slurm_conf: Annotated[
        str,
        typer.Option(
            "--slurm-conf",
            metavar="FILE",
            help="The cluster's slurm.conf; else what the configuration says, the usual places, $SLURM_CONF.",
        ),
    ] = "",
    write: Annotated[bool, typer.Option("--write", help="Write what is shown; slurm.conf never.")] = False,
    as_json: options.Json = False,
) -> None:
    """Set slurm_guard up on this host, showing every change first."""
    from slurm_guard.doctor.setup import Setup

    host = Host(root)
    setup = Setup(host.places, host.node, slurm_conf)
    made = setup.write() if write else []
    if as_json:
        output.emit_json("init", {**setup.as_dict(), "written": made})
        return
    if write:
        _tell_written(setup, made)
    else:
        _show_files(setup)
    _show_slurm_conf(setup)
    print("next: `sguard config check`, `sguard config apply`, `sguard doctor`")


def _tell_written(setup: "Setup", made: list[str]) -> None:
    if setup.places.config not in made:
        print(f"kept {setup.places.config}: it was there already")
    targets = {link.path: link.target for link in setup.links}
    done = [f"linked {path} -> {targets[path]}" if path in targets else f"wrote {path}" for path in made]
    print("\n".join(done) or "every link was there already")


def _show_files(setup: "Setup") -> None:
    path = setup.places.config
    if setup.exists:
        _remark(f"{path} is there already and stays as it is")
    else:
        print(f"# would write {path}:\n{setup.text}")
    for link in setup.links:
        _remark(f"would link {link.path} -> {link.target}")
    _remark("nothing was written: `sguard init --write` does")


def _show_slurm_conf(setup: "Setup") -> None:
    """Lines to add and advice; the file itself belongs to the admin."""
    if setup.conf is None:
        _remark("no slurm.conf found: name it with --slurm-conf to see the lines it needs")
        return
    named = " ($SLURM_CONF)" if setup.conf_place.source == "environment" else ""
    if setup.lines:
        _remark(
            f"add to {setup.conf.path}{named}, then `scontrol reconfigure` (hook files first, on every node):"
        )
        print("\n".join(setup.lines))
    if setup.optional:
        _remark(
            "if you like: tells the user of a requeued job, in its output, which node was refused and why"
        )
        print("\n".join(setup.optional))
    for one in setup.advice:
        _remark(output.printable(one.what))
        _remark(output.printable(one.remedy), "  -> ")


def _remark(text: str, first: str = "") -> None:
    """A comment, wrapped; lines that are to be copied stand between the comments as they are."""
    print("\n".join(wrap(text, f"# {first}", "#   " + " " * len(first))))
