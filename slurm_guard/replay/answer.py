"""The replay's answer as a JSON object: totals, differences, and what could not be replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slurm_guard.engine.clock import iso
from slurm_guard.replay.limits import limits, on_record
from slurm_guard.replay.spells import differences
from slurm_guard.store import queries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from slurm_guard.replay.held import Hold
    from slurm_guard.replay.spells import Ledger, Spell
    from slurm_guard.replay.world import World

#: A drain at another time by so much is worth a line.
_LATE_MS = 15 * 60_000
#: An action follows the run that called for it within this.
_ANSWER_MS = 10 * 60_000


def answer(done: World) -> dict[str, Any]:
    """See docs/json.md, `policy_replay`."""
    question = done.question
    would, did, both = differences(done.would, done.did)
    is_shown = question.is_shown
    would, did = [one for one in would if is_shown(one.node)], [one for one in did if is_shown(one.node)]
    both = [pair for pair in both if is_shown(pair[0].node)]
    held = [one for one in done.holds.all if is_shown(one.node)]
    return {
        "from": _time(question.since),
        "to": _time(question.until),
        "cluster": question.cluster,
        "plan": question.bundle.get("hash") or None,
        "enforce": question.enforce,
        "nodes": len(done.cluster),
        "nodes_on_record": len(on_record(done)),
        "would": _totals(done.would, is_shown),
        "did": _totals(done.did, is_shown),
        "same": len(both),
        "only_would": [_spell(one) | {"then": _then(done, one)} for one in would],
        "only_did": [_spell(one) | {"now": one.then} for one in did],
        "otherwise": [_pair(*pair) for pair in both if _differs(*pair)],
        "jobs_not_started": done.absent_jobs,
        "held_by": _by_limit(held),
        "held": [_hold(one) for one in held],
        "not_replayed": limits(done),
    }


def _time(at: int | None) -> str | None:
    return None if at is None else iso(at / 1000)


def _totals(ledger: Ledger, is_shown: Callable[[str], bool]) -> dict[str, Any]:
    """Counts of the nodes that are shown; how many were out at once is always of the whole cluster."""
    mine = [one for one in ledger.spells if is_shown(one.node)]
    return {
        "drains": sum(not one.early for one in mine),
        "refusals": sum(count for node, count in ledger.refusals.items() if is_shown(node)),
        "returns": sum(count for node, count in ledger.returns.items() if is_shown(node)),
        "most_out": ledger.most,
        "most_out_at": _time(ledger.most_at),
    }


def _by_limit(held: Iterable[Hold]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in held:
        found[one.limit] = found.get(one.limit, 0) + 1
    return dict(sorted(found.items()))


def _spell(one: Spell) -> dict[str, Any]:
    return {
        "at": _time(one.at),
        "until": _time(one.until),
        "node": one.node,
        "action": one.action,
        "fault": one.fault,
        "device": one.device,
        "tier": one.tier,
        "why": one.why,
        "rules": one.rules,
    }


def _hold(one: Hold) -> dict[str, Any]:
    found = {"at": _time(one.at), "until": _time(one.until), "times": one.times, "node": one.node}
    return {**found, "fault": one.fault, "device": one.device, "limit": one.limit, "why": one.why}


def _differs(would: Spell, did: Spell) -> bool:
    apart = abs(would.at - did.at) > _LATE_MS and not (would.early or did.early)
    return apart or (would.fault, would.device) != (did.fault, did.device)


def _pair(would: Spell, did: Spell) -> dict[str, Any]:
    return {"node": would.node, "would": _spell(would), "did": _spell(did)}


def _then(done: World, one: Spell) -> str:
    """Why the node was not drained then: what was held or failed, else what the node decided."""
    numbers = [number for number, name in done.names.items() if name == one.node]
    near = queries.actions(
        done.connection, nodes=numbers, names=("drain", "refuse"), since=one.at, until=one.at + _ANSWER_MS
    )
    for action in reversed(near):
        if (action.fault, action.device) == (one.fault, one.device) and action.outcome in ("held", "failed"):
            return f"{action.outcome}: {action.why or action.answer or 'no reason is on record'}"
    return one.then
