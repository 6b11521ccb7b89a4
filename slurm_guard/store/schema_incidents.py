"""Tables of what the records amount to: incidents, and what a collector that acts keeps of its own work.

Times are integer milliseconds since 1970 in UTC, flags are 0 and 1. Incidents are made from the other tables
(`slurm_guard.correlate`), but for what people said of them: `incident_words` and `incident_ends`.
"""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, Table, Text, UniqueConstraint

from slurm_guard.store.schema import metadata


def _id() -> Column[int]:
    return Column("id", Integer, primary_key=True)


def _whole(name: str, *, required: bool = True) -> Column[int]:
    return Column(name, Integer, nullable=not required)


def _text(name: str, *, required: bool = True) -> Column[str]:
    return Column(name, Text, nullable=not required)


#: One row per incident. `cause` is what its members share; `part_of` is set where it turned out to be part of
#: another one. `resolved_at` is set as long as `state` is resolved, `closed_by` where a person said so.
incidents = Table(
    "incidents",
    metadata,
    _id(),
    _text("cluster"),
    _text("cause"),
    _text("fault"),
    _text("scope"),
    _text("tier"),
    _text("state"),
    _whole("first_seen"),
    _whole("last_seen"),
    _whole("resolved_at", required=False),
    _text("resolved_why", required=False),
    _text("acknowledged_by", required=False),
    _whole("acknowledged_at", required=False),
    _text("acknowledged_text", required=False),
    _text("closed_by", required=False),
    _whole("closed_at", required=False),
    _text("closed_why", required=False),
    _text("summary"),
    _whole("part_of", required=False),
)
Index("incidents_cause", incidents.c.cluster, incidents.c.cause, incidents.c.first_seen)
Index("incidents_seen", incidents.c.last_seen)

#: One fault on one device of one node, from its first sighting until it was proven gone (`ended`). Where the
#: next run of the node goes on counting: the columns from `boot` on. `node_id` 0 is no node.
incident_members = Table(
    "incident_members",
    metadata,
    _id(),
    _whole("incident", required=False),
    _whole("node_id"),
    _text("cluster"),
    _text("fault"),
    _text("device"),
    _text("scope"),
    _text("tier"),
    _text("message"),
    _whole("first_seen"),
    _whole("last_seen"),
    _whole("count"),
    _whole("ended", required=False),
    _text("why", required=False),
    _text("boot"),
    _text("machine_id"),
    _text("serial"),
    _whole("event"),
    _whole("excused"),
    _whole("clean"),
    _whole("clean_at"),
)
Index("incident_members_incident", incident_members.c.incident)
Index("incident_members_node", incident_members.c.node_id, incident_members.c.ended)
Index(
    "incident_members_fault", incident_members.c.cluster, incident_members.c.fault, incident_members.c.ended
)
Index("incident_members_open", incident_members.c.fault, sqlite_where=incident_members.c.ended.is_(None))

#: What people said: `ack` or `close`, with their text.
incident_words = Table(
    "incident_words",
    metadata,
    _id(),
    _whole("incident"),
    _whole("at"),
    _text("what"),
    _text("by"),
    _text("text"),
)
Index("incident_words_incident", incident_words.c.incident)

#: A fault on a device that a person called over, at that time: it ends there, however records arrive.
incident_ends = Table(
    "incident_ends",
    metadata,
    _whole("node_id"),
    _text("fault"),
    _text("device"),
    _whole("at"),
    _text("by"),
    _text("text"),
    UniqueConstraint("node_id", "fault", "device", "at"),
)

#: How far the runs were looked at: `runs` is the number of the last row of `runs`.
incident_cursors = Table(
    "incident_cursors",
    metadata,
    Column("name", Text, primary_key=True),
    Column("at", Integer, nullable=False),
)

#: Who may do what only one may do at a time, until when.
leases = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    _text("holder"),
    _whole("until"),
)

#: Drains and resumes that a collector carries out. `run` is the id of the run that asked (hex), `job_ids` and
#: `users` are JSON lists. `state`: waiting, claimed, done, held, failed or withdrawn.
orders = Table(
    "orders",
    metadata,
    _id(),
    _whole("node_id"),
    _text("kind"),
    _text("fault"),
    _text("device"),
    _text("scope"),
    _text("reason"),
    _text("run"),
    _text("job_ids"),
    _text("users"),
    _whole("made_at"),
    _text("state"),
    _text("holder"),
    _whole("changed_at"),
    _text("why"),
    _text("answer"),
    _whole("calls"),
    _text("policy_hash"),
    UniqueConstraint("run", "kind", "fault", "device"),
)
Index("orders_open", orders.c.made_at, sqlite_where=orders.c.state.in_(["waiting", "claimed"]))
Index("orders_node", orders.c.node_id, orders.c.changed_at)

TABLES = (
    incidents, incident_members, incident_words, incident_ends, incident_cursors, leases, orders,
)  # fmt: skip
