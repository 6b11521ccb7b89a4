"""Incidents and their members as plain data; times in milliseconds since 1970 (UTC)."""

from __future__ import annotations

from dataclasses import dataclass, field

OPEN, ACKNOWLEDGED, RESOLVED = "open", "acknowledged", "resolved"
STATES = (OPEN, ACKNOWLEDGED, RESOLVED)
#: The scope of faults whose cause several nodes share.
SHARED = "shared"
#: Faults of the guard's own: they come from no check.
SILENT, COLLECTOR_SILENT = "guard.silent", "guard.collector_silent"
BUDGET, PLAN = "budget", "plan"


@dataclass(slots=True)
class Member:
    """One fault on one device of one node, from its first sighting to its end (None while it is open).

    `count` runs saw it, `message` is the first one's. What follows `why` is where the node's next run goes
    on: the boot and machine of the last sighting, clean runs since and when the last of them counted;
    `excused`: an event for which the node was put back in service since.
    """

    node_id: int
    node: str
    cluster: str
    fault: str
    device: str
    first_seen: int
    last_seen: int
    scope: str = "node"
    tier: str = ""
    message: str = ""
    count: int = 1
    ended: int | None = None
    why: str | None = None
    boot: str = ""
    machine_id: str = ""
    serial: str = ""
    event: bool = False
    excused: bool = False
    clean: int = 0
    clean_at: int = 0
    id: int = 0
    incident: int | None = None

    @property
    def check(self) -> str:
        """The check, or what else the fault is of."""
        return self.fault.partition(".")[0]

    @property
    def is_watched(self) -> bool:
        """True for what is looked at by the clock and not by the node's own runs."""
        return self.fault in (SILENT, COLLECTOR_SILENT)


@dataclass(slots=True)
class Incident:
    """Members of one cause. `part_of` is the incident that this one turned out to be a part of."""

    cluster: str
    cause: str
    fault: str
    scope: str
    tier: str
    state: str
    first_seen: int
    last_seen: int
    summary: str = ""
    resolved_at: int | None = None
    resolved_why: str | None = None
    acknowledged_by: str | None = None
    acknowledged_at: int | None = None
    acknowledged_text: str | None = None
    closed_by: str | None = None
    closed_at: int | None = None
    closed_why: str | None = None
    part_of: int | None = None
    id: int = 0
    members: list[Member] = field(default_factory=list)

    @property
    def nodes(self) -> list[str]:
        """The nodes that had it, by name."""
        return sorted({one.node for one in self.members if one.node})

    @property
    def devices(self) -> list[str]:
        """The devices that had it, by name."""
        return sorted({one.device for one in self.members if one.device})
