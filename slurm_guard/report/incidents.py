"""The incidents of a time: `build` makes the JSON object, `text` the page."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from slurm_guard import __version__
from slurm_guard.report.job_nodes import fold
from slurm_guard.report.layout import clean, cut, iso, span, unix, when, wrap
from slurm_guard.store import affected, incidents
from slurm_guard.store.incident_model import SHARED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurm_guard.store import Store
    from slurm_guard.store.affected import Job
    from slurm_guard.store.incident_model import Incident

SCHEMA = "1.0"
WIDTH = 80
_MOST_LINES = 100
_MOST_JOBS = 8
_LONGEST = 240


def build(
    store: Store,
    *,
    states: Sequence[str] | None = None,
    since: int | None = None,
    nodes: Sequence[str] | None = None,
    cluster: str | None = None,
    now: int | None = None,
) -> dict[str, Any]:
    """Incidents, those that go on first: of some states, seen since a time (ms), on some nodes.

    Raises StoreError if the store fails.
    """
    found = incidents.listed(store, states=states, since=since, nodes=nodes, cluster=cluster)
    with store.read() as connection:
        jobs = affected.jobs(connection, [one.id for one in found])
    ordered = sorted(found, key=lambda one: (one.resolved_at is not None, -one.last_seen, -one.id))
    return {
        "schema": SCHEMA,
        "kind": "incidents",
        "generated": iso(round(time.time() * 1000) if now is None else now),
        "guard_version": __version__,
        "incidents": [of(one, jobs[one.id]) for one in ordered],
    }


def named(
    store: Store, nodes: Sequence[str], cluster: str | None, since: int, until: int, *, seen: bool = False
) -> list[dict[str, Any]]:
    """The incidents of some nodes in a time, as the reports on a node and a job name them."""
    keys = ("id", "state", "cause", "fault", "scope", "tier", "first_seen", "last_seen", "nodes", "devices")
    found = incidents.of_nodes(store, nodes, cluster, since, until, seen=seen)
    return [{key: value for key, value in of(one, ()).items() if key in keys} for one in found]


def named_lines(some: Sequence[dict[str, Any]], width: int, most: int = 5) -> list[str]:
    """The same as lines: each with its number, so that `sguard incident show` is next."""
    lines: list[str] = []
    for one in some[-most:]:
        since = when(unix(one["first_seen"]))
        lines += wrap(
            f"incident #{one['id']}, {one['state']}, since {since}: {title(one)}", width, "  ", "    "
        )
    return lines


def of(one: Incident, jobs: Sequence[Job]) -> dict[str, Any]:
    """One incident as reports show it."""
    return {
        "id": one.id,
        "cluster": one.cluster,
        "cause": one.cause,
        "fault": one.fault,
        "scope": one.scope,
        "tier": one.tier or None,
        "state": one.state,
        "first_seen": iso(one.first_seen),
        "last_seen": iso(one.last_seen),
        "nodes": one.nodes,
        "devices": one.devices,
        "job_ids": sorted({job.job_id for job in jobs}),
        "message": one.summary,
        "resolved": _said(None, one.resolved_at, one.resolved_why),
        "acknowledged": _said(one.acknowledged_by, one.acknowledged_at, one.acknowledged_text),
        "closed": _said(one.closed_by, one.closed_at, one.closed_why),
    }


def _said(by: str | None, at: int | None, text: str | None) -> dict[str, Any] | None:
    return None if at is None else {"at": iso(at), "by": by, "text": text or None}


def text(report: dict[str, Any], width: int = WIDTH) -> str:
    """The page; every line fits `width` columns. Empty if there is none."""
    found, now = report["incidents"], unix(report["generated"]) or 0
    if not found:
        return ""
    counted = {
        state: sum(one["state"] == state for one in found) for state in ("open", "acknowledged", "resolved")
    }
    lines = wrap(
        f"INCIDENTS: {', '.join(f'{n} {s}' for s, n in counted.items() if n)} (times are UTC)", width
    )
    for one in found[:_MOST_LINES]:
        lines += _lines(one, now, width)
    more = len(found) - _MOST_LINES
    if more > 0:
        lines += wrap(f"and {more} more: choose with -S, -w or --state, or take --json", width)
    return "\n".join(lines) + "\n"


def _lines(one: dict[str, Any], now: int, width: int) -> list[str]:
    lines = wrap(f"#{one['id']} {one['state']}: {title(one)}", width, "  ", "      ")
    lines += wrap(times(one, now), width, "      ")
    if one["message"]:
        lines += wrap(cut(clean(one["message"]), _LONGEST), width, "      ")
    return lines + [line for said in words(one) for line in wrap(said, width, "      ", "        ")]


def title(one: dict[str, Any]) -> str:
    """What it is and where: `gpu_xid.79 gpu[1,5] on n3`."""
    what = one["cause"] if one["scope"] == SHARED else f"{one['fault']} {fold(one['devices'])}"
    what = what.removesuffix(" -")
    nodes = one["nodes"]
    where = f" on {fold(nodes)}" + (f" ({len(nodes)} nodes)" if len(nodes) > 1 else "") if nodes else ""
    return f"{what}{where}" + (f", {one['tier']}" if one["tier"] else "")


def times(one: dict[str, Any], now: int) -> str:
    """Since when, until when, and which jobs it met."""
    first, last = unix(one["first_seen"]) or 0, unix(one["last_seen"]) or 0
    over = one["resolved"]
    end = now if over is None else unix(over["at"]) or now
    told = (
        f"since {when(first)} ({span(end - first)})"
        if over is None
        else f"{when(first)} for {span(end - first)}"
    )
    ids = one["job_ids"]
    named = ", ".join(map(str, ids[:_MOST_JOBS])) + (", …" if len(ids) > _MOST_JOBS else "")
    jobs = f"; {len(ids)} {'job' if len(ids) == 1 else 'jobs'}: {named}" if ids else "; no job"
    return f"{told}, last seen {when(last, date=when(last)[:10] != when(first)[:10])}{jobs}"


def words(one: dict[str, Any]) -> list[str]:
    """What was said of it, and why it is over."""
    said = []
    if one["acknowledged"] is not None:
        said.append(_word("acknowledged", one["acknowledged"]))
    if one["closed"] is not None:
        said.append(_word("closed", one["closed"]))
    elif one["resolved"] is not None:
        said.append(f"resolved {when(unix(one['resolved']['at']))}: {one['resolved']['text']}")
    return said


def _word(did: str, said: dict[str, Any]) -> str:
    return f"{did} by {said['by']} {when(unix(said['at']))}" + (f": {said['text']}" if said["text"] else "")
