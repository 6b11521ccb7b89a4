"""Slurm's programs and its controller, asked as the guard would ask."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_guard.core.errors import SlurmError, SlurmUnreachableError
from slurm_guard.doctor.advice import Advice, Topic
from slurm_guard.slurm.command_gateway import CommandGateway

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_guard.doctor.subject import Subject

TOPIC = Topic("slurm")
DEADLINE_S = 3.0
_NEEDED = ("scontrol", "sinfo", "squeue", "sacct")


def examine(subject: Subject) -> Iterator[Advice]:
    """The programs of the plan, and one question to the controller."""
    yield from _programs(subject)
    if os.access(subject.plan.programs.get("scontrol", ""), os.X_OK):
        yield _controller(subject)


def _programs(subject: Subject) -> Iterator[Advice]:
    remedy = "set `bin` in [slurm] of slurm-guard.toml, then `sguard config apply`"
    found = []
    for name in _NEEDED:
        path = subject.plan.programs.get(name)
        if path is None:
            status = TOPIC.bad if name == "scontrol" else TOPIC.warn
            yield status(f"the plan names no {name}", subject.places.plan, remedy)
        elif not path.startswith("/") or not os.access(path, os.X_OK):
            yield TOPIC.bad(f"{path} cannot be executed", path, remedy)
        else:
            found.append(name)
    if len(found) == len(_NEEDED):
        yield TOPIC.good(
            "all of Slurm's programs are there", str(Path(subject.plan.programs["scontrol"]).parent)
        )


def _controller(subject: Subject) -> Advice:
    gateway = CommandGateway(subject.plan.programs, subject.plan.slurm_conf)
    try:
        node = gateway.node(subject.node, deadline=DEADLINE_S)
    except SlurmUnreachableError as error:
        return TOPIC.bad(
            f"the controller does not answer: {error}",
            subject.plan.slurm_conf,
            "`scontrol ping`; check munge, the network and slurmctld; until then drains wait on disk",
        )
    except SlurmError as error:
        return TOPIC.warn(
            f"Slurm does not know this node: {error}",
            subject.plan.slurm_conf,
            'use `--node NAME`, or write {"node": NAME} to node.json, if the NodeName is not the host name',
        )
    return TOPIC.good(f"the controller answers: node {node.name} is {node}")
