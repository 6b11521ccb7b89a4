"""What a replay could not know, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_guard.core import check as registry
from slurm_guard.engine.clock import iso
from slurm_guard.slurm.hostlist import fold

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slurm_guard.replay.world import World

#: Records that begin so soon after the history that is taken in miss nothing that counts.
_EARLY_ENOUGH_MS = 3_600_000
_ALWAYS = [
    "thresholds, references and expected values: findings are as they were judged then",
    "what admins did with scontrol, and nodes that were down or in maintenance: that is not on record",
    "where jobs would have run instead: those on a node that would have been out are left out",
]


def on_record(done: World) -> set[str]:
    """Nodes with a run in the time that is asked about."""
    return {done.names[number] for number, (_, last) in done.recorded.items() if last >= done.question.since}


def limits(done: World) -> list[str]:
    """What is particular to this replay, then what is true of all."""
    return [*_of_nodes(done), *_of_the_plan(done), *_ALWAYS]


def _of_nodes(done: World) -> list[str]:
    found, question = [], done.question
    unknown = (question.shown or frozenset()).difference(done.cluster)
    if unknown:
        found.append(f"{_names(unknown)}: neither on record, nor in the plan or slurm.conf")
    absent = {name for name in done.cluster if question.is_shown(name)} - on_record(done)
    if absent:
        found.append(f"no records of {_names(absent)} in this time: taken for in service")
    begins: dict[str, int] = {}
    for number, (first, _) in done.recorded.items():
        name = done.names[number]
        begins[name] = min(first, begins.get(name, first))
    late = {name for name, first in begins.items() if first > done.begin + _EARLY_ENOUGH_MS}
    late = {name for name in late - absent if question.is_shown(name)}
    if late:
        earliest = iso(min(begins[name] for name in late) / 1000)
        found.append(f"events before the records begin ({_names(late)}, the first at {earliest})")
    return found


def _of_the_plan(done: World) -> list[str]:
    found = []
    unseen = sorted(set(done.plan.checks or registry.names()) - done.checks_seen)
    if unseen:
        found.append(f"checks that left nothing on record: {', '.join(unseen)}")
    if not done.question.partitions:
        found.append("partitions: no slurm.conf was read, so only the budget of the whole cluster was held")
    if done.question.enforce:
        found.append("modes: what is only observed was taken as enforced; what is off stayed off")
    else:
        found.append("modes of then: those of this plan were taken for all of the time")
    return found


def _names(names: Iterable[str]) -> str:
    wanted = sorted(names)
    try:
        return f"{len(wanted)} nodes ({fold(wanted)})" if len(wanted) > 1 else wanted[0]
    except ValueError:
        return f"{len(wanted)} nodes"
