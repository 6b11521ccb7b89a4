"""Slurm's programs and its controller, asked as the guard would ask."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from slurm_guard.config import host
from slurm_guard.config.model import Config
from slurm_guard.core.errors import SlurmError, SlurmUnreachableError
from slurm_guard.doctor.advice import Advice, Topic
from slurm_guard.doctor.words import one_sentence
from slurm_guard.slurm.command_gateway import CommandGateway

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_guard.doctor.subject import Subject

TOPIC = Topic("slurm")
DEADLINE_S = 3.0
_NEEDED = ("scontrol", "sinfo", "squeue", "sacct")
_REMEDY = "set `bin` in [slurm] of slurm-guard.toml, then `sguard config apply`"


def examine(subject: Subject) -> Iterator[Advice]:
    """The programs of the plan, and one question to the controller."""
    planned = subject.plan.state in ("ok", "stale")
    programs = subject.plan.programs if planned else _to_be_planned(subject)
    yield from _programs(subject, programs, planned)
    conf = subject.plan.slurm_conf or (subject.slurm.path if subject.slurm else "")
    if (planned or conf) and host.is_program(programs.get("scontrol", "")):
        yield _controller(subject, CommandGateway(programs, conf))


def _to_be_planned(subject: Subject) -> dict[str, str]:
    """What `sguard config apply` would find: without a plan only what that cannot mend is worth a word."""
    return host.find_programs(subject.places, subject.reading.config or Config())


def _programs(subject: Subject, programs: dict[str, str], planned: bool) -> Iterator[Advice]:
    missing = [name for name in _NEEDED if name not in programs]
    broken = [path for path in programs.values() if not path.startswith("/") or not host.is_program(path)]
    if missing:
        names = ", ".join(missing)
        what = f"the plan names no {names}" if planned else f"{names}: not in the usual places"
        where = subject.places.plan if planned else ""
        yield (TOPIC.bad if "scontrol" in missing else TOPIC.warn)(what, where, _REMEDY)
    for path in broken:
        yield TOPIC.bad(f"{path} cannot be executed", path, _REMEDY)
    if not missing and not broken:
        yield TOPIC.good("all of Slurm's programs are there", str(Path(programs["scontrol"]).parent))


def _controller(subject: Subject, gateway: CommandGateway) -> Advice:
    try:
        node = gateway.node(subject.node, deadline=DEADLINE_S)
    except SlurmUnreachableError as error:
        return TOPIC.bad(
            f"the controller does not answer: {one_sentence(error)}",
            gateway.slurm_conf,
            "`scontrol ping`; check munge, the network and slurmctld; until then drains wait on disk",
        )
    except SlurmError as error:
        return TOPIC.warn(
            f"Slurm does not know this node: {one_sentence(error)}",
            gateway.slurm_conf,
            'use `--node NAME`, or write {"node": NAME} to node.json, if the NodeName is not the host name',
        )
    return TOPIC.good(f"the controller answers: node {node.name} is {node}")
