"""Bring the incidents on record in line with their members, after members began, ended or changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_guard.correlate import causes
from slurm_guard.correlate.group import WITHIN_MS, Group, partition
from slurm_guard.correlate.tracker import graver
from slurm_guard.store import incidents, members
from slurm_guard.store.incident_model import ACKNOWLEDGED, OPEN, RESOLVED, Incident

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from slurm_guard.correlate.causes import Key
    from slurm_guard.correlate.changes import Changes
    from slurm_guard.store.incident_model import Member


def regroup(connection: Connection, key: Key, since: int, changes: Changes) -> None:
    """Group the members of a cause anew, from those on that touch `since` (milliseconds)."""
    some = _touching(connection, key, since)
    groups = partition(some)
    before = {one.incident for one in some if one.incident is not None}
    known = incidents.by_id(connection, before)
    former = {one.id: one.incident for one in some}
    taken = _take(connection, groups, known, changes)
    for number in before - set(taken):
        heir = next((one.incident for one in some if former[one.id] == number), None)
        if heir is not None and number in known:
            known[number].part_of = heir
            incidents.save(connection, known[number])
            changes.merged.add(number)


def hand_on(connection: Connection, number: int, heir: int | None, changes: Changes) -> None:
    """An incident that lost its last member is part of the one that has its time now, or none at all."""
    if number == heir or members.of_incidents(connection, [number])[number]:
        return
    one = incidents.by_id(connection, [number]).get(number)
    if one is None or one.part_of is not None:
        return
    if heir is None:
        incidents.remove(connection, number)
        return
    one.part_of = heir
    incidents.save(connection, one)
    changes.merged.add(number)


def _touching(connection: Connection, key: Key, since: int) -> list[Member]:
    """Every member of a cause that can be in one incident with what began or ended since."""
    while True:
        found = members.of_cause(connection, *key, since=since - WITHIN_MS)
        first = min((one.first_seen for one in found), default=since)
        if first >= since:
            return found
        since = first


def _take(
    connection: Connection, groups: list[Group], known: dict[int, Incident], changes: Changes
) -> dict[int, Incident]:
    """Give each group its incident: the oldest of its members' own that is not taken yet, or a new one."""
    taken: dict[int, Incident] = {}
    for group in groups:
        own = sorted({one.incident for one in group.members if one.incident is not None} & known.keys())
        number = next((one for one in own if one not in taken), None)
        incident = _settle(connection, group, known[number] if number is not None else None, changes)
        taken[incident.id] = incident
    return taken


def _settle(connection: Connection, group: Group, known: Incident | None, changes: Changes) -> Incident:
    """Write what a group of members makes of its incident."""
    one = _made_of(group)
    if known is not None:
        _keep_words(one, known)
    before = known.state if known is not None else None
    is_grown = known is not None and any(each.incident != known.id for each in group.members)
    incidents.save(connection, one)
    members.assign(connection, one.id, group.members)
    if before is None:
        changes.opened.add(one.id)
    elif before == RESOLVED and one.state != RESOLVED:
        changes.reopened.add(one.id)
    if one.state == RESOLVED and before != RESOLVED:
        changes.resolved.add(one.id)
    if is_grown:
        changes.grown.add(one.id)
    return one


def _made_of(group: Group) -> Incident:
    """An incident from its members alone."""
    first = group.members[0]
    last = max(group.members, key=lambda one: (one.ended or 0, one.node, one.fault, one.device))
    is_over = all(one.ended is not None for one in group.members)
    return Incident(
        cluster=first.cluster,
        cause=causes.cause(group.members, many=group.many),
        fault=first.fault,
        scope=first.scope,
        tier=graver(group.members),
        state=RESOLVED if is_over else OPEN,
        first_seen=first.first_seen,
        last_seen=max(one.last_seen for one in group.members),
        summary=first.message,
        resolved_at=last.ended if is_over else None,
        resolved_why=last.why if is_over else None,
    )


def _keep_words(one: Incident, known: Incident) -> None:
    """What people said stays, unless it is another incident now: one node's that proves to be many nodes'."""
    one.id = known.id
    if known.cause == one.cause:
        one.acknowledged_by, one.acknowledged_at = known.acknowledged_by, known.acknowledged_at
        one.acknowledged_text = known.acknowledged_text
    if one.state == OPEN and one.acknowledged_at is not None:
        one.state = ACKNOWLEDGED
    if one.state == RESOLVED:
        one.closed_by, one.closed_at, one.closed_why = known.closed_by, known.closed_at, known.closed_why
