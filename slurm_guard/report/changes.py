"""What changed on a node while a job ran: growth of counters, and values that should stay as they are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_guard.store.model import NodeShare

#: What a metric is about, by its name; the first match counts.
GROUPS = (
    (re.compile(r"xid"), "Xid"),
    (re.compile(r"ecc|sram|retired"), "ECC"),
    (re.compile(r"remap"), "remaps"),
    (re.compile(r"throttl|slowdown|clocks_event|violation"), "throttling"),
    (re.compile(r"^ib_|symbol|link_down|port_"), "IB counters"),
    (re.compile(r"pcie"), "PCIe"),
)
OTHER = "other"
#: What is looked at in every job, so that "nothing changed" says what did not.
WATCHED = ("Xid", "ECC", "remaps", "IB counters", "throttling")

#: Values that move all the time and mean nothing as a change.
_GAUGE = re.compile(
    r"temperature|power|memory|used|free|load|uptime|space|inodes|utilization|margin|process|latency"
)


@dataclass(slots=True)
class Change:
    """A change on a device: `by` is a counter's growth, `before` and `now` values; an event has neither."""

    group: str
    metric: str
    device: str
    by: float | None = None
    before: float | None = None
    now: float | None = None


def changes(share: NodeShare) -> list[Change] | None:
    """What changed on a node from prolog to epilog; None if that is not known (no epilog on record)."""
    if share.epilog is None:
        return None
    found = [_change(name, by=growth) for name, growth in share.epilog.growths.items() if growth]
    before = share.prolog.values if share.prolog is not None else {}
    for name, now in share.epilog.values.items():
        earlier = before.get(name)
        if (
            earlier is not None
            and earlier != now
            and name not in share.epilog.growths
            and not _GAUGE.search(name)
        ):
            found.append(_change(name, before=earlier, now=now))
    found += [
        Change("Xid", one.fault, one.device)
        for one in share.epilog.findings
        if one.check == "gpu_xid" and one.event
    ]
    return sorted(found, key=lambda one: (_rank(one.group), one.metric, one.device))


def _change(name: str, **what: float | None) -> Change:
    metric, _, device = name.partition(" ")
    group = next((group for pattern, group in GROUPS if pattern.search(metric)), OTHER)
    return Change(group, metric, device, **what)


def _rank(group: str) -> int:
    order = [name for _, name in GROUPS]
    return order.index(group) if group in order else len(order)
