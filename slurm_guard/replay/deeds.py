"""What was done in fact: by the guard, which the replay is held against; by people, which it takes over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_guard.core import reason as reasons
from slurm_guard.replay.spells import Spell

if TYPE_CHECKING:
    from slurm_guard.replay.world import World
    from slurm_guard.store.model import ActionRow


class Deeds:
    """Takes actions of the records into a world."""

    def __init__(self, world: World) -> None:
        self.world = world

    def take(self, one: ActionRow) -> None:
        """One drain, refusal or resume that was done."""
        world, name = self.world, self.world.names[one.node_id]
        if one.user is not None or one.by == "cli":
            self._persons(one, name)
        elif one.at < world.question.since:
            self.follow(one, world.memory(name).state.boot_id)
        else:
            self._record(one, name)
        world.measure(one.at)

    def _persons(self, one: ActionRow, name: str) -> None:
        """What a person did counts in the replay too: nobody knows what else they would have done."""
        world = self.world
        if one.action == "resume":
            world.did.end(name, one.at)
            world.would.end(name, one.at)
            world.cluster.resume(name)
            world.memory(name).note_persons_return()
        elif not world.cluster.reason(name):
            world.cluster.drain(name, one.reason or "a person's", one.at / 1000)

    def follow(self, one: ActionRow, boot_id: str) -> None:
        """Before the time that is asked about, the replay is what was; `boot_id` is the node's of then."""
        world, name = self.world, self.world.names[one.node_id]
        self._record(one, name)
        if one.action == "resume":
            world.would.end(name, one.at)
            world.cluster.resume(name)
            world.memory(name).note_returned(one.at / 1000, by_us=one.outcome == "done")
        elif not world.would.is_out(name):
            world.would.begin(Spell(name, one.at, one.fault, one.device, one.action, early=True))
            world.cluster.drain(name, reasons.build(one.fault, one.device), one.at / 1000)
            world.memory(name).note_earlier_drain(one.fault, one.device, boot_id, one.at)

    def _record(self, one: ActionRow, name: str) -> None:
        did, early = self.world.did, one.at < self.world.question.since
        if one.action == "resume":
            if did.end(name, one.at) and one.outcome == "done" and not early:
                did.returns[name] += 1
            return
        if one.action == "refuse" and not early:
            did.refusals[name] += 1
        if one.action == "drain":
            did.end(name, one.at)  # it was in service, or this drain would have written nothing
        if not did.is_out(name):
            spell = Spell(name, one.at, one.fault, one.device, one.action, early=early)
            spell.then = self._word(name, one)
            did.begin(spell)

    def _word(self, name: str, one: ActionRow) -> str:
        """What the replay said of a fault for which the node was drained in fact."""
        memory = self.world.memory(name)
        check, enabled = one.fault.partition(".")[0], memory.plan.checks
        if enabled is not None and check not in enabled:
            return f"the plan does not run {check}"
        if (one.fault, one.device) not in memory.words:
            return "no run on record told of this fault"
        return memory.words[one.fault, one.device][1]
