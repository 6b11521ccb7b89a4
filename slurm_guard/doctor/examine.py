"""Runs every examination; one that breaks is told as such and keeps none of the others from running."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_guard.doctor import (
    controller,
    gpu,
    hooks,
    node,
    permissions,
    plan,
    readers,
    secrets,
    slurm_conf,
    timeouts,
)
from slurm_guard.doctor.advice import Advice, Topic, order
from slurm_guard.doctor.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurm_guard.core.paths import Places

EXAMINATIONS: tuple[tuple[Topic, Callable[[Subject], Iterator[Advice]]], ...] = (
    (slurm_conf.TOPIC, slurm_conf.examine),
    (timeouts.TOPIC, timeouts.examine),
    (hooks.TOPIC, hooks.examine),
    (plan.TOPIC, plan.examine),
    (node.TOPIC, node.examine),
    (gpu.TOPIC, gpu.examine),
    (controller.TOPIC, controller.examine),
    (secrets.TOPIC, secrets.examine),
    (readers.TOPIC, readers.examine),
    (permissions.TOPIC, permissions.examine),
)


def examine(places: Places, node_name: str) -> list[Advice]:
    """Everything the doctor has to say about this host, gravest first."""
    subject = Subject(places, node_name)
    found: list[Advice] = []
    for topic, look in EXAMINATIONS:
        found += _guarded(topic, look, subject)
    return order(found)


def _guarded(topic: Topic, look: Callable[[Subject], Iterator[Advice]], subject: Subject) -> list[Advice]:
    found: list[Advice] = []
    try:
        found.extend(look(subject))
    except Exception as error:  # noqa: BLE001 - whatever one examination meets, the others still run
        what = f"could not look any further: {type(error).__name__}: {error}"
        found.append(topic.unknown(what, remedy="run as root; if you are, this is a bug worth reporting"))
    return found
