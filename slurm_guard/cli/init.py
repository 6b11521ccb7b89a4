"""`sguard init`: a first configuration, the shims' places, the lines for slurm.conf."""

from typing import TYPE_CHECKING, Annotated

import typer

from slurm_guard.cli import options, output
from slurm_guard.cli.host import Host

if TYPE_CHECKING:
    from slurm_guard.doctor.setup import Setup


def init(
    root: options.Root = "/",
    slurm_conf: Annotated[
        str, typer.Option("--slurm-conf", metavar="FILE", help="The cluster's slurm.conf.")
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
        print("\n".join(f"wrote {path}" for path in made))
    else:
        _show_files(setup)
    _show_slurm_conf(setup)
    print("next: `sguard config check`, `sguard config apply`, `sguard doctor`")


def _show_files(setup: "Setup") -> None:
    path = setup.places.config
    print(
        f"# {path} is there already and stays as it is"
        if setup.exists
        else f"# would write {path}:\n{setup.text}"
    )
    for link in setup.links:
        print(f"# would link {link.path} -> {link.target}")
    if not setup.exists:
        print("# nothing was written: `sguard init --write` does")


def _show_slurm_conf(setup: "Setup") -> None:
    """Lines to add and advice; the file itself belongs to the admin."""
    if setup.conf is None:
        print("# no slurm.conf found: name it with --slurm-conf to see the lines it needs")
        return
    if setup.lines:
        print(f"# add to {setup.conf.path}, then `scontrol reconfigure` (hook files first, on every node):")
        print("\n".join(setup.lines))
    for one in setup.advice:
        print(f"# {output.printable(one.what)}\n#   -> {output.printable(one.remedy)}")
