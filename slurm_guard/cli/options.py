"""Options that several commands share, with Slurm's own letters. Modules of commands import these names."""

from typing import Annotated

import typer

from slurm_guard.core import check
from slurm_guard.core.context import HOOKS


def hooks(incomplete: str) -> list[str]:
    """What the shell offers for a hook."""
    return [name for name in HOOKS if name.startswith(incomplete)]


def checks(incomplete: str) -> list[str]:
    """What the shell offers for a check; after its dot, for one of its faults."""
    name, dot, _ = incomplete.partition(".")
    if not dot or name not in check.names():
        return [one for one in check.names() if one.startswith(incomplete)]
    return [f"{name}.{code}" for code in check.load(name).faults if f"{name}.{code}".startswith(incomplete)]


Root = Annotated[
    str, typer.Option("--root", metavar="DIR", help="Take this node's files from below DIR instead of /.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object (docs/json.md).")]
Nodes = Annotated[
    str | None, typer.Option("-w", "--nodes", metavar="HOSTLIST", help="Only these nodes, e.g. n[01-16,20].")
]
Node = Annotated[
    str | None,
    typer.Option(
        "-w", "--node", metavar="NODE", help="As the plan has it for this node; default: this host."
    ),
]
Partition = Annotated[
    str | None, typer.Option("-p", "--partition", metavar="NAME", help="Only nodes of this partition.")
]
Cluster = Annotated[
    str | None, typer.Option("-M", "--clusters", metavar="NAME", help="The cluster; default: this host's.")
]
Start = Annotated[
    str | None,
    typer.Option(
        "-S", "--start", metavar="TIME", help="From this time on: now-7days, 2026-11-30T10:00, midnight, …"
    ),
]
End = Annotated[
    str | None, typer.Option("-E", "--end", metavar="TIME", help="Up to this time, in the same forms.")
]
