"""What changed on a node while a job ran: growth of counters, and values that should stay as they are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurm_guard.core.outcome import UNKNOWN

if TYPE_CHECKING:
    from slurm_guard.store.model import NodeShare, RunRow

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
#: Counters that grow on every busy node.
_USUAL = re.compile(r"xmit_wait$")
#: Findings that are a change by themselves, whatever the counters say: an Xid, clocks that were throttled.
_EVENTS = (
    (re.compile(r"gpu_xid\."), "Xid"),
    (re.compile(r"gpu_temperature\.(?:\w*slowdown|power_brake)"), "throttling"),
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
    """What changed on a node during a job: from its prolog to its epilog, and what runs in between saw.

    Without an epilog only the latter, and None if that is nothing: then it is not known.
    """
    found = _events(share)
    if share.epilog is not None:
        found += _from_prolog_to(share.epilog, share)
    if share.epilog is None and not found:
        return None
    return sorted(found, key=lambda one: (_rank(one.group), one.metric, one.device))


def _from_prolog_to(epilog: RunRow, share: NodeShare) -> list[Change]:
    """How counters grew, and values that are not what they were."""
    found = [
        _change(name, by=growth) for name, growth in epilog.growths.items() if growth and not _is_usual(name)
    ]
    before = share.prolog.values if share.prolog is not None else {}
    for name, now in epilog.values.items():
        earlier = before.get(name)
        if earlier is not None and earlier != now and name not in epilog.growths and not _GAUGE.search(name):
            found.append(_change(name, before=earlier, now=now))
    return found


def _is_usual(name: str) -> bool:
    return _USUAL.search(name.partition(" ")[0]) is not None


def _events(share: NodeShare) -> list[Change]:
    """Xids and throttling that any run after the prolog saw; what the prolog saw already is no change."""
    old = {
        (one.fault, one.device) for one in (share.prolog.findings if share.prolog else ()) if not one.event
    }
    runs = [*share.events, *([share.epilog] if share.epilog is not None else [])]
    found: dict[tuple[str, str], Change] = {}
    for one in (finding for run in runs for finding in run.findings):
        group = next((group for pattern, group in _EVENTS if pattern.match(one.fault)), None)
        if group is not None and one.status != UNKNOWN and (one.fault, one.device) not in old:
            found.setdefault((one.fault, one.device), Change(group, one.fault, one.device))
    return list(found.values())


def _change(name: str, **what: float | None) -> Change:
    metric, _, device = name.partition(" ")
    group = next((group for pattern, group in GROUPS if pattern.search(metric)), OTHER)
    return Change(group, metric, device, **what)


def _rank(group: str) -> int:
    order = [name for _, name in GROUPS]
    return order.index(group) if group in order else len(order)
