"""The replay: runs of all nodes in order of time, each node with its own memory, one budget over all.

Time goes by in short pieces, and of each piece only the nodes are read that have something to see or to
remember, so that memory does not grow with the time that is asked about.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from slurm_guard.replay.answer import answer
from slurm_guard.replay.deeds import Deeds
from slurm_guard.replay.runs import Runs
from slurm_guard.replay.world import World
from slurm_guard.store import history, queries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_guard.replay.world import Question
    from slurm_guard.store import Store
    from slurm_guard.store.history import PastRun
    from slurm_guard.store.model import ActionRow

#: Milliseconds of one piece of time: thousands of nodes that all fail must fit in memory.
STEP_MS = 30 * 60_000


def replay(store: Store, question: Question) -> dict[str, Any]:
    """What the policy would have done, and how that differs from what was done: see docs/json.md.

    Raises StoreError if the store fails.
    """
    with store.read() as connection:
        world = World(connection, question)
        _go(world)
        return answer(world)


def _go(world: World) -> None:
    deeds, runs, since = Deeds(world), Runs(world), world.question.since
    _start_as_it_was(world, deeds)
    measured = False
    for at, _, what in _everything(world):
        if not measured and at >= since:
            world.measure(since)
            measured = True
        if isinstance(what, history.PastRun):
            runs.take(what)
        else:
            deeds.take(what)
    if not measured:
        world.measure(since)


def _start_as_it_was(world: World, deeds: Deeds) -> None:
    """Nodes that were out of service when the records to be replayed begin."""
    standing = history.standing(world.connection, world.begin)
    boots = queries.boots_of(world.connection, [one.run for one in standing.values()])
    for one in standing.values():
        if one.node_id in world.names:
            deeds.follow(one, boots.get(one.run, ""))


def _everything(world: World) -> Iterator[tuple[int, int, PastRun | ActionRow]]:
    """Runs and deeds in order, (ms, number, which)."""
    begin, until = world.begin, world.question.until
    trouble = history.trouble(world.connection, world.names, begin, until, STEP_MS)
    deeds: dict[int, list[ActionRow]] = {}
    for one in history.deeds(world.connection, begin, until):
        if one.node_id in world.names:
            deeds.setdefault((one.at - begin) // STEP_MS, []).append(one)
    for step, start in enumerate(range(begin, until, STEP_MS)):
        yield from _piece(world, start, trouble.get(step, set()), deeds.pop(step, []))


def _piece(
    world: World, start: int, troubled: set[int], deeds: list[ActionRow]
) -> Iterator[tuple[int, int, PastRun | ActionRow]]:
    """A piece of time; of nodes that are quiet nothing is read."""
    awake = {world.names[number] for number in troubled}
    awake |= {name for name, memory in world.memories.items() if not memory.is_quiet}
    numbers = sorted(number for name in awake for number in world.numbers[name])
    end = min(start + STEP_MS, world.question.until)
    runs = history.runs(world.connection, numbers, start, end, world.lists)
    items: list[tuple[int, int, PastRun | ActionRow]] = [(one.at, one.id, one) for one in runs]
    return heapq.merge(items, ((one.at, -1, one) for one in deeds), key=lambda item: item[:2])
