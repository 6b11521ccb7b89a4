"""The audit: who or what did what to which node, when, on what finding, with which plan, and what Slurm said.

`build` makes the JSON object, `text` the page. What people said of incidents stands between what was done.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from slurm_guard import __version__
from slurm_guard.report.actions import events, sentence
from slurm_guard.report.layout import clean, cut, iso, unix, when, wrap
from slurm_guard.store import affected, fleet, incidents

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slurm_guard.report.actions import Event
    from slurm_guard.store import Store
    from slurm_guard.store.affected import Origin

SCHEMA = "1.0"
WIDTH = 80
_MOST_LINES = 100
_LONGEST = 240
_NONE = affected.Origin("", "", "")


def build(
    store: Store,
    nodes: Iterable[str] | None = None,
    since: int | None = None,
    until: int | None = None,
    cluster: str | None = None,
) -> dict[str, Any]:
    """What was done to nodes in [since, until] (ms), newest first. Raises StoreError if the store fails."""
    wanted = None if nodes is None else list(nodes)
    rows = fleet.drains(store, since, until, wanted, cluster)
    found = events(rows)
    with store.read() as connection:
        origins = affected.origins(connection, (one.run for one in found))
        messages = affected.messages(connection, rows)
    said = incidents.spoken(store, since, until) if wanted is None else []
    return {
        "schema": SCHEMA,
        "kind": "drain_history",
        "generated": iso(round(time.time() * 1000)),
        "guard_version": __version__,
        "from": iso(since),
        "to": iso(until),
        "history": [_row(one, origins, messages) for one in reversed(found)],
        "words": [{**one, "at": iso(one["at"])} for one in reversed(said)],
    }


def _row(one: Event, origins: dict[int, Origin], messages: dict[tuple[str, str, str], str]) -> dict[str, Any]:
    """An event with the finding that called for it, and what decided on it."""
    origin = origins.get(one.run, _NONE)
    return {
        **one.as_dict(),
        "finding": messages.get((one.asked, one.fault, one.device)),
        "run_id": one.asked or None,
        "calls": one.calls,
        "plan_hash": origin.plan_hash or None,
        "plan_state": origin.plan_state or None,
        "guard_version": origin.guard_version or None,
    }


def text(report: dict[str, Any], width: int = WIDTH) -> str:
    """The page, newest first; every line fits `width` columns. Empty if nothing was done."""
    rows = [(one["at"], _lines(one, width)) for one in report["history"]]
    rows += [(one["at"], _word(one, width)) for one in report["words"]]
    rows.sort(key=lambda row: row[0], reverse=True)
    lines = [line for _, some in rows[:_MOST_LINES] for line in some]
    more = len(rows) - _MOST_LINES
    if more > 0:
        lines += wrap(f"and {more} more: choose a shorter time with -S and -E, or --json", width)
    return "\n".join(["TIME (UTC)          WHAT WAS DONE", *lines]) + "\n" if lines else ""


def _lines(one: dict[str, Any], width: int) -> list[str]:
    lines = wrap(f"{when(unix(one['at']))} {sentence(one)}", width, "", "    ")
    if one["finding"]:
        lines += wrap(f"on: {cut(clean(one['finding']), _LONGEST)}", width, "    ", "      ")
    return lines + wrap(f"by: {_decided(one)}; Slurm: {_answer(one)}", width, "    ", "      ")


def _decided(one: dict[str, Any]) -> str:
    """What decided: which plan, and which version of the guard."""
    plan = one["plan_hash"][:8] if one["plan_hash"] else "none"
    state = f" ({one['plan_state']})" if one["plan_state"] not in (None, "ok") else ""
    return f"plan {plan}{state}, slurm_guard {one['guard_version'] or '?'}"


def _answer(one: dict[str, Any]) -> str:
    """What Slurm said to it."""
    if one["answer"]:
        return cut(clean(one["answer"]), _LONGEST)
    if not one["calls"]:
        return "was not asked"
    return "took it" if one["outcome"] in ("done", "withdrawn") else "was read only"


def _word(one: dict[str, Any], width: int) -> list[str]:
    did = {"ack": "acknowledged", "close": "closed"}.get(one["what"], one["what"])
    told = f": {one['text']}" if one["text"] else ""
    said = f"{when(unix(one['at']))} {one['by']} {did} incident {one['incident']}{told}"
    return wrap(said, width, "", "    ")
