"""One incident whole: `build` makes the JSON object, `text` the page."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from slurm_guard import __version__
from slurm_guard.report import incidents as listing
from slurm_guard.report.actions import events, sentence
from slurm_guard.report.job_nodes import fold
from slurm_guard.report.layout import clean, iso, section, table, unix, when, wrap
from slurm_guard.store import affected, incidents, queries
from slurm_guard.store.incident_model import BUDGET, PLAN

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from slurm_guard.store import Store
    from slurm_guard.store.affected import Job
    from slurm_guard.store.incident_model import Incident, Member
    from slurm_guard.store.model import ActionRow

SCHEMA = "1.0"
WIDTH = 80
_MOST_LINES = 20
#: What was done counts until so long after the end; a drain may come some time after its finding.
_AFTER_MS = 30 * 60_000
_BEFORE_MS = 60_000
#: What to do about what comes from no check.
_REMEDIES = {
    BUDGET: "Look for what the nodes share (`sguard drains`); raise [budget] only if that is nothing.",
    PLAN: "Run `sguard config apply`; where nodes fetch their plan, `sguard ship` on one says why not.",
    "guard": "Look at the service there: `sguard doctor`, and the log of slurmd or of `sguard serve`.",
}


def build(store: Store, number: int, now: int | None = None) -> dict[str, Any]:
    """Everything on record about an incident. Raises NotFoundError, StoreError."""
    one = incidents.load(store, number)
    with store.read() as connection:
        jobs = affected.jobs(connection, [number])[number]
        done = _actions(connection, one)
        seen = _remedy(connection, one)
    return {
        "schema": SCHEMA,
        "kind": "incident",
        "generated": iso(round(time.time() * 1000) if now is None else now),
        "guard_version": __version__,
        **listing.of(one, jobs),
        "remedy": seen,
        "earlier": incidents.earlier(store, one),
        "part_of": one.part_of,
        "members": [_member(each) for each in one.members],
        "jobs": [_job(each) for each in jobs],
        "actions": [each.as_dict() for each in events(done)],
        "words": [{**said, "at": iso(said["at"])} for said in incidents.words(store, number)],
    }


def _actions(connection: Connection, one: Incident) -> list[ActionRow]:
    """What was done about it: on its nodes, in its time, for its faults."""
    numbers = sorted({each.node_id for each in one.members})
    until = None if one.resolved_at is None else one.resolved_at + _AFTER_MS
    found: list[ActionRow] = []
    for some in queries.chunks(numbers):
        found += queries.actions(connection, nodes=some, since=one.first_seen - _BEFORE_MS, until=until)
    if one.fault.startswith(f"{BUDGET}."):
        return [row for row in found if row.outcome == "held"]
    faults = {each.fault for each in one.members}
    return [row for row in found if row.fault in faults]


def _remedy(connection: Connection, one: Incident) -> str | None:
    """What its first finding says is to be done."""
    if not one.members:
        return None
    first = one.members[0]
    if first.check in _REMEDIES:
        return _REMEDIES[first.check]
    seen = queries.findings(
        connection, nodes=[first.node_id], fault=first.fault, device=first.device, since=first.first_seen,
        until=first.last_seen, most=1,
    )  # fmt: skip
    return seen[0].remedy if seen else None


def _member(one: Member) -> dict[str, Any]:
    return {
        "node": one.node or None,
        "fault": one.fault,
        "device": one.device or None,
        "first_seen": iso(one.first_seen),
        "last_seen": iso(one.last_seen),
        "times": one.count,
        "ended": iso(one.ended),
        "why": one.why,
        "message": one.message,
    }


def _job(one: Job) -> dict[str, Any]:
    times = {"opened": iso(one.opened), "closed": iso(one.closed)}
    return {"job_id": one.job_id, "user": one.user, "node": one.node, **times}


def text(report: dict[str, Any], width: int = WIDTH) -> str:
    """The page of an incident; every line fits `width` columns, times are UTC."""
    now = unix(report["generated"]) or 0
    lines = wrap(
        f"Incident {report['id']}, {report['state']}: {listing.title(report)} (times are UTC)", width
    )
    if report["part_of"] is not None:
        lines += wrap(f"It is part of incident {report['part_of']}: look at that one.", width, "  ")
    lines += wrap(listing.times(report, now), width, "  ", "    ")
    for said in listing.words(report):
        lines += wrap(said, width, "  ", "    ")
    if report["earlier"] is not None:
        lines += wrap(f"it is back: the last one was incident {report['earlier']}", width, "  ")
    if report["message"]:
        lines += wrap(report["message"], width, "  ")
    if report["remedy"]:
        lines += wrap(f"repair: {report['remedy']}", width, "  ", "    ")
    lines += section("WHERE", _where(report, width))
    lines += section("JOBS THAT IT MET", _jobs(report, width))
    lines += section("WHAT WAS DONE", _done(report, width))
    if report["words"]:
        lines += section("WHAT WAS SAID", [line for said in report["words"] for line in _word(said, width)])
    return "\n".join(lines).rstrip() + "\n"


def _where(report: dict[str, Any], width: int) -> list[str]:
    """Nodes whose part in it was alike are one line."""
    alike: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for one in report["members"]:
        end = one["why"] or ""
        alike.setdefault(
            (one["fault"], one["device"] or "", "over" if one["ended"] else "open", end), []
        ).append(one)
    lines: list[str] = []
    for (fault, device, state, why), some in list(alike.items())[:_MOST_LINES]:
        nodes = [one["node"] for one in some if one["node"]]
        first, last = min(one["first_seen"] for one in some), max(one["last_seen"] for one in some)
        what = f"{fold(nodes) if nodes else 'admin host'}: {fault} {device}".rstrip()
        times = sum(one["times"] for one in some)
        seen = f"{when(unix(first))}, seen once"
        if times > 1:
            seen = f"{when(unix(first))} to {when(unix(last))}, seen {times} times"
        lines += wrap(f"{what}, {seen}, {state}" + (f": {clean(why)}" if why else ""), width, "  ", "    ")
    more = len(alike) - _MOST_LINES
    return [*lines, f"  and {more} more"] if more > 0 else lines


def _jobs(report: dict[str, Any], width: int) -> list[str]:
    rows = [
        (one["job_id"], one["user"] or "-", one["node"], when(unix(one["opened"])), _until(one))
        for one in report["jobs"][:_MOST_LINES]
    ]
    more = len(report["jobs"]) - _MOST_LINES
    lines = table(rows, width, most=(12, 16, 20)) or ["  None."]
    return [*lines, f"  and {more} more"] if more > 0 else lines


def _until(one: dict[str, Any]) -> str:
    return f"to {when(unix(one['closed']))}" if one["closed"] else "no end on record"


def _done(report: dict[str, Any], width: int) -> list[str]:
    lines: list[str] = []
    for one in report["actions"][-_MOST_LINES:]:
        lines += wrap(f"{when(unix(one['at']))} {sentence(one)}", width, "  ", "    ")
    more = len(report["actions"]) - _MOST_LINES
    return [f"  {more} earlier events are in --json", *lines] if more > 0 else lines or ["  Nothing."]


def _word(said: dict[str, Any], width: int) -> list[str]:
    did = {"ack": "acknowledged it", "close": "closed it"}.get(said["what"], said["what"])
    told = f": {said['text']}" if said["text"] else ""
    return wrap(f"{when(unix(said['at']))} {said['by']} {did}{told}", width, "  ", "    ")
