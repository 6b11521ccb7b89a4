"""What the policy makes of one run: drain, hold, return; by the node's memory and the cluster's budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_guard.core import reason as reasons
from slurm_guard.replay.spells import Spell
from slurm_guard.store import history

if TYPE_CHECKING:
    from slurm_guard.core.policy import Decision
    from slurm_guard.replay.memory import Memory, Taken
    from slurm_guard.replay.world import World
    from slurm_guard.store.history import PastRun


class Runs:
    """Takes runs of the records into a world."""

    def __init__(self, world: World) -> None:
        self.world = world

    def take(self, run: PastRun) -> None:
        """One run of a hook."""
        name = self.world.names[run.node_id]
        if run.hook == "prolog":
            self._see_who_resumed(run, name)
        if not self._is_absent(run, name):
            self._take(run, name)

    def _see_who_resumed(self, run: PastRun, name: str) -> None:
        """A job starts on a node that was drained in fact: a person put it back, and would have so here."""
        world, since = self.world, self.world.did.out_since(name)
        if since is None or run.at - since < history.LATE_PROLOG_MS:
            return
        world.did.end(name, run.at)
        if world.would.end(name, run.at):
            world.cluster.resume(name)
            world.memory(name).note_persons_return()

    def _is_absent(self, run: PastRun, name: str) -> bool:
        """True for hooks of a job that would not have started here, the node being out of service."""
        absent = self.world.memory(name).absent
        if run.job_id is None or run.at < self.world.question.since:
            return False
        if run.hook == "prolog" and self.world.cluster.reason(name):
            self.world.absent_jobs += 1
            absent.add(run.job_id)
            return True
        is_absent = run.job_id in absent
        if run.hook == "epilog":
            absent.discard(run.job_id)
        return is_absent

    def _take(self, run: PastRun, name: str) -> None:
        memory = self.world.memory(name)
        self.world.checks_seen.update(one.check for one in run.findings)
        taken = memory.take(run, lambda: history.job(self.world.connection, run)[0])
        if any("jobs" not in entry for entry in memory.faults.open.values()):
            memory.faults.note_whose(*self._on_the_node(run))
        if run.at < self.world.question.since:
            memory.faults.asked = None
            return
        if taken.stays:
            self.world.holds.note(name, run.at, "stays", taken.stays, memory.faults.claim or {})
        if taken.wanted is not None:
            self._drain(name, run, memory, taken)
        elif taken.decisions and taken.decisions[0].mode == "observe":
            self._hold(name, run, taken.decisions[0], "observe", f"{taken.decisions[0].why}; mode observe")
        if taken.returns:
            self._return(name, run, memory)
        self.world.measure(run.at)

    def _drain(self, name: str, run: PastRun, memory: Memory, taken: Taken) -> None:
        wanted, now = taken.wanted, run.ended / 1000
        assert wanted is not None
        standing = self.world.cluster.reason(name)
        if standing:
            if reasons.parse(standing) is not None:
                memory.note_drained(standing, run.boot_id)
            else:
                memory.faults.asked = None
            return
        jobs, users = memory.faults.whose(wanted.fault, wanted.device, *self._on_the_node(run))
        room = self.world.cluster.room(name, wanted, now, jobs, users)
        if not room.ok:
            memory.faults.asked = None
            memory.words[wanted.fault, wanted.device] = run.at, room.why
            self._hold(name, run, wanted, room.limit, room.why)
            return
        reason = reasons.build(wanted.fault, wanted.device)
        self.world.cluster.drain(name, reason, now, jobs, users)
        memory.note_drained(reason, run.boot_id, wanted)
        self.world.would.begin(_spell(name, run, wanted, taken.refuses))
        if taken.refuses:
            self.world.would.refusals[name] += 1
            if run.job_id is not None:
                memory.absent.add(run.job_id)

    def _hold(self, name: str, run: PastRun, wanted: Decision, limit: str, why: str) -> None:
        cause = {"fault": wanted.fault, "device": wanted.device}
        self.world.holds.note(name, run.at, limit, why, cause)

    def _on_the_node(self, run: PastRun) -> tuple[list[int], list[int]]:
        """The jobs and users whose node a drain takes, as in engine/weigh.py; root is nobody."""
        if run.job_id is not None:
            uid = history.job(self.world.connection, run)[1]
            return [run.job_id], [uid] if uid else []
        others = run.other_jobs()
        jobs = [one["job_id"] for one in others if isinstance(one.get("job_id"), int)]
        return jobs, sorted({one["uid"] for one in others if isinstance(one.get("uid"), int) and one["uid"]})

    def _return(self, name: str, run: PastRun, memory: Memory) -> None:
        standing, claim = self.world.cluster.reason(name), memory.faults.claim
        is_ours = claim is not None and standing == claim["reason"]
        if is_ours:
            self.world.cluster.resume(name)
            if self.world.would.end(name, run.at):
                self.world.would.returns[name] += 1
        memory.note_returned(run.ended / 1000, by_us=is_ours)


def _spell(name: str, run: PastRun, wanted: Decision, refuses: bool) -> Spell:
    spell = Spell(name, run.at, wanted.fault, wanted.device, "refuse" if refuses else "drain", wanted.tier)
    spell.why, spell.rules = wanted.why, list(wanted.rules)
    for one in run.decided():
        if (one.get("fault"), one.get("device") or "") == (wanted.fault, wanted.device):
            mode, why = one.get("mode"), str(one.get("why") or "")
            acted = one.get("action") in ("drain", "refuse")
            spell.then = f"{one.get('action')}, mode {mode}" if acted else why
    return spell
