"""What was done about a node, as events: one for each thing that really happened, however often it was asked.

A drain leaves several actions on record: what a run planned, what became of it, and every later run that
found the node drained already. People want to read of it once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slurm_guard.report.layout import clean, cut, iso, unix, when

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from slurm_guard.store.model import ActionRow

#: Later attempts of one cause that ended alike are one event if they follow within this of each other.
_ALIKE_MS = 3_600_000
_DRAINS = ("drain", "refuse")
#: What records without `written` say of an answer of Slurm's that is some seconds old.
_ASKED_BEFORE = re.compile(r" \(asked \d+ s ago\)$")
_PLANNED = ("queued", "observed")
_AS_ROW = (
    "node", "action", "fault", "device", "reason", "outcome", "why", "answer", "by", "user", "job_id",
)  # fmt: skip


@dataclass(slots=True)
class Event:
    """One thing that was done, held back or failed; times in milliseconds.

    `times` attempts ended alike, the first at `at`, the last at `until`. `drained` is True for a refusal that
    also drained the node. `by` is the hook that called for it, in the run with id `asked`; it stands in the
    record of row `run`. `calls` counts calls to Slurm.
    """

    at: int
    until: int
    times: int
    node: str
    action: str
    fault: str
    device: str
    reason: str | None
    outcome: str
    why: str | None
    answer: str | None
    by: str
    user: str | None
    job_id: int | None
    drained: bool = False
    run: int = 0
    asked: str = ""
    calls: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The event as reports show it."""
        found = {name: getattr(self, name) for name in _AS_ROW}
        span = {"at": iso(self.at), "until": iso(self.until), "times": self.times}
        return {**span, **found, "drained": self.drained}


def events(rows: Iterable[ActionRow], job_id: int | None = None) -> list[Event]:
    """Actions as events, oldest first.

    With `job_id`, what was told to or refused to other jobs is left out, and drains that came with it stay.
    """
    rows = list(rows)
    hooks = {one.asked: one.by for one in rows if one.outcome in _PLANNED}
    found: list[Event] = []
    for some in _by_cause(rows):
        found += _settled(some, job_id, hooks.get(some[0].asked))
    return _without_repeats(sorted(found, key=lambda one: (one.at, one.node)))


def _by_cause(rows: Iterable[ActionRow]) -> list[list[ActionRow]]:
    """Actions that one run called for because of one fault, each group in order of time."""
    groups: dict[tuple[Any, ...], list[ActionRow]] = {}
    for one in sorted(rows, key=lambda row: row.at):
        kind = "drain" if one.action in _DRAINS else one.action
        groups.setdefault((one.asked, one.node_id, kind, one.fault, one.device), []).append(one)
    return list(groups.values())


def _settled(rows: list[ActionRow], job_id: int | None, hook: str | None) -> list[Event]:
    """What became of one call by a `hook`: the plan if nothing did, a refusal and its drain as one."""
    plan = next((one for one in rows if one.outcome in _PLANNED), None)
    ends = [one for one in rows if one.outcome not in _PLANNED]
    if not ends:
        return [_event(plan, plan.by)] if plan is not None and not _is_others(plan, job_id) else []
    refusal = next((one for one in ends if one.action == "refuse"), None)
    others = [one for one in ends if one is not refusal]
    by = hook or ends[0].by
    if refusal is None or _is_others(refusal, job_id):
        return [_event(one, by) for one in others if not _is_others(one, job_id)]
    found = _event(refusal, by)
    drain = next((one for one in others if one.action == "drain"), None)
    if drain is not None:
        found.drained = drain.outcome == "done" and not _is_repeat(drain)
        found.answer = found.answer or drain.answer
        found.calls = max(found.calls, drain.calls or 0)
    return [found, *(_event(one, by) for one in others if one is not drain)]


def _is_others(one: ActionRow, job_id: int | None) -> bool:
    return job_id is not None and one.action in ("refuse", "tell") and one.job_id not in (None, job_id)


def _event(one: ActionRow, by: str) -> Event:
    return Event(
        at=one.at,
        until=one.at,
        times=1,
        node=one.node,
        action=one.action,
        fault=one.fault,
        device=one.device,
        reason=one.reason,
        outcome="done" if _is_repeat(one) else one.outcome,
        why=_why(one),
        answer=one.answer,
        by=by,
        user=one.user,
        job_id=one.job_id,
        run=one.run,
        asked=one.asked,
        calls=one.calls or 0,
    )


def _why(one: ActionRow) -> str | None:
    """Why it ended so, where the outcome does not say it already."""
    if one.outcome == "done":
        return ALREADY if _is_repeat(one) else None
    return _ASKED_BEFORE.sub("", one.why or "") or None


#: What is said of a drain that found the node drained by an earlier one.
ALREADY = "drained already"


def _is_repeat(one: ActionRow) -> bool:
    """True for a `done` that changed nothing: the node was found as it should be, some seconds ago or now."""
    return one.outcome == "done" and one.action != "refuse" and one.changed_nothing


def _without_repeats(found: Sequence[Event]) -> list[Event]:
    """Leave out what changed nothing, and count attempts that ended alike as one event."""
    kept: list[Event] = []
    out: dict[str, bool] = {}
    for number, one in enumerate(found):
        if one.outcome == "queued" and any(_is_answer(one, later) for later in found[number + 1 :]):
            continue
        if one.why == ALREADY and (one.action != "drain" or out.get(one.node)):
            continue
        if one.outcome == "done" and one.action in (*_DRAINS, "resume"):
            out[one.node] = one.action != "resume"
        earlier = _alike(kept, one)
        if earlier is None:
            kept.append(one)
        else:
            earlier.times, earlier.until, earlier.why = earlier.times + 1, one.at, one.why
    return kept


def _is_answer(plan: Event, later: Event) -> bool:
    """True if another run carried out what a plan wanted: one drain is enough for many runs."""
    same = (later.node, later.fault, later.device) == (plan.node, plan.fault, plan.device)
    return same and later.outcome != "queued" and (later.action in _DRAINS) == (plan.action in _DRAINS)


def _alike(kept: Sequence[Event], one: Event) -> Event | None:
    """The event that an attempt repeats: same cause, same end, nothing else done to the node in between."""
    if one.outcome == "done":
        return None
    for other in reversed(kept):
        if other.node != one.node:
            continue
        if _cause(other) == _cause(one):
            return other if one.at - other.until <= _ALIKE_MS else None
        if other.outcome == "done" and other.action in (*_DRAINS, "resume"):
            return None
    return None


def _cause(one: Event) -> tuple[Any, ...]:
    return one.action, one.fault, one.device, one.reason, one.outcome, one.user, one.job_id


#: Columns that the reasons of an event may take; all of them are in JSON.
_LONGEST = 300

_SENTENCES = {
    ("drain", "done"): "drained {node}",
    ("drain", "held"): "did not drain {node}",
    ("drain", "failed"): "could not drain {node}",
    ("drain", "observed"): "would have drained {node}",
    ("drain", "queued"): "wanted to drain {node}",
    ("refuse", "done"): "refused {job} on {node}",
    ("refuse", "held"): "let {job} start on {node} in spite of",
    ("refuse", "failed"): "could not refuse {job} on {node}",
    ("refuse", "observed"): "would have refused {job} on {node}",
    ("refuse", "queued"): "wanted to refuse {job} on {node}",
    ("resume", "done"): "resumed {node}, drained as",
    ("resume", "held"): "did not resume {node}, drained as",
    ("resume", "failed"): "could not resume {node}, drained as",
    ("resume", "withdrawn"): "took back its drain of {node}",
    ("tell", "done"): "told the owner of {job} in its admin comment",
    ("tell", "held"): "did not tell the owner of {job}",
    ("tell", "failed"): "could not tell the owner of {job}",
}


def sentence(one: dict[str, Any]) -> str:
    """An event of a report in words, without its time: who did what, the reason, and why not more."""
    job = "the job" if one["job_id"] is None else f"job {one['job_id']}"
    unheard_of = f"{one['action']} of {{node}} {one['outcome']}"
    did = _SENTENCES.get((one["action"], one["outcome"]), unheard_of).format(node=one["node"], job=job)
    if one["drained"]:
        did = f"refused {job} and drained {one['node']}"
    elif one["why"] == ALREADY:
        did = f"found {one['node']} drained already"
    who = one["user"] or one["by"]
    reason = one["reason"] or f"{one['fault']} {one['device']}".strip()
    said = f'{who} {did} "{reason}"' if reason and one["action"] != "tell" else f"{who} {did}"
    if one["times"] > 1:
        said += f" ({one['times']} times until {when(unix(one['until']), date=False)})"
    return f"{said}{_because(one)}"


def _because(one: dict[str, Any]) -> str:
    why = [] if one["why"] in (None, "", ALREADY) else [one["why"]]
    if one["outcome"] == "observed":
        why.insert(0, "mode observe")
    if one["outcome"] == "queued":
        why.insert(0, "no answer on record yet")
    if one["answer"] and one["outcome"] == "failed" and one["answer"] not in why:
        why.append(one["answer"])
    return cut(clean(f": {'; '.join(why)}"), _LONGEST) if why else ""
