"""Slurm as the commands ask it: through the plan's programs, with a deadline, and never as a must."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from slurm_guard.core.errors import SlurmError
from slurm_guard.slurm.command_gateway import CommandGateway

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurm_guard.cli.host import Host
    from slurm_guard.slurm.gateway import Gateway
    from slurm_guard.slurm.reserving import ReservingGateway

Answer = TypeVar("Answer")

DEADLINE_S = 3.0


def door(host: Host) -> Gateway:
    """The door to Slurm, from this host's plan."""
    return CommandGateway(host.plan.programs, host.plan.slurm_conf)


def reserving_door(host: Host) -> ReservingGateway:
    """The door that reserves nodes and runs jobs there, for an admin's command."""
    from slurm_guard.slurm.reserving import ReservingGateway

    return ReservingGateway(host.plan.programs, host.plan.slurm_conf)


def ask(question: Callable[[], Answer], nothing: Answer) -> tuple[Answer, str]:
    """What Slurm answers, or `nothing` and the sentence that says why there is no answer."""
    try:
        return question(), ""
    except SlurmError as error:
        return nothing, str(error)
