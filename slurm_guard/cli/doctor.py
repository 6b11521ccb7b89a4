"""`sguard doctor`: what keeps slurm_guard from working on this host."""

from typing import Annotated

import typer

from slurm_guard.cli import options, output
from slurm_guard.cli.host import Host
from slurm_guard.cli.wrapped import wrap
from slurm_guard.core.outcome import PASS, SKIP, STATUSES, worst


def doctor(
    root: options.Root = "/",
    node: Annotated[
        str | None, typer.Option("-w", "--node", metavar="NODE", help="This host's NodeName.")
    ] = None,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show what is in order, too.")] = False,
    as_json: options.Json = False,
) -> int:
    """Look for what keeps slurm_guard from working on this host."""
    from slurm_guard.doctor.advice import needs_a_person
    from slurm_guard.doctor.examine import examine

    host = Host(root, node)
    advice = examine(host.places, host.node)
    if as_json:
        status = worst(one.status for one in advice)
        output.emit_json(
            "doctor", {"node": host.node, "status": status, "advice": [one.as_dict() for one in advice]}
        )
        return int(needs_a_person(advice))
    shown = [one for one in advice if verbose or one.status not in (PASS, SKIP)]
    for one in shown:
        place = f" [{one.where}]" if one.where and one.where not in one.what else ""
        said = output.printable(one.what + place)
        lines = wrap(f"{one.topic}: {said}", f"{one.status:<8}", " " * 8)
        if one.remedy:
            lines += wrap(output.printable(one.remedy), "        -> ", " " * 11)
        print("\n".join(lines))
    counts = {status: sum(one.status == status for one in advice) for status in reversed(STATUSES)}
    print(f"{host.node}: " + ", ".join(f"{count} {status}" for status, count in counts.items() if count))
    return int(needs_a_person(advice))
