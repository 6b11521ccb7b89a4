"""How many nodes the guard may take out of service at once. Pure: all nodes are handed in.

A prolog's refusal is a drain too, so every `Prolog error` counts. Faults whose cause is shared (a file
server, the fabric) have a smaller budget of their own: they are one incident, not many broken nodes. So is
one and the same fault on most nodes, whatever the budget: a configuration, a new check, an upgrade. And a job
that breaks node after node, or a user whose jobs do, must not eat the cluster: see core/tag.py.
"""

from __future__ import annotations

import time

from slurm_guard.core import reason as reasons
from slurm_guard.core import tag
from slurm_guard.slurm import states
from slurm_guard.slurm.states import Answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from slurm_guard.slurm.gateway import NodeState

_NAMED = 5
#: So many nodes with the same fault may be a coincidence no longer.
FEW = 2
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


class Room(Answer):
    """The answer to "is there room?"; `limit` names what was reached: `job`, `user`, `shared`, `incident`,
    `nodes`, `partition` or `per_hour`; empty where there is room.
    """

    limit = ""


def _none(limit: str, why: str) -> Room:
    found = Room(False, why)
    found.limit = limit
    return found


def drained(nodes: Iterable[NodeState]) -> list[NodeState]:
    """The nodes that are out of service because of the guard, or of a failing hook."""
    return [node for node in nodes if states.counts_against_budget(node)]


def limit(budget: Mapping[str, float], size: int) -> int:
    """The most nodes of `size` that may be drained at once: `nodes`, and `percent` of them but at least 1."""
    percent = budget["percent"]
    share = max(1, int(size * percent / 100)) if percent > 0 else 0
    return min(int(budget["nodes"]), share)


def room(
    nodes: Iterable[NodeState],
    name: str,
    budget: Mapping[str, float],
    fault: str,
    scope: str,
    device: str = "",
    now: float | None = None,
    *,
    jobs: Iterable[int] = (),
    users: Iterable[int] = (),
) -> Room:
    """May one more node, `name`, be drained for `fault` on `device`?

    `scope` `shared` is for a fault with a shared cause; `jobs` and `users` (uids) are those on the node. A
    node that is out already needs no further room. `now` is in seconds since 1970, the present by default.
    """
    at = time.time() if now is None else now
    known = [node for node in nodes if node.base != "future"]
    out = drained(known)
    if any(node.name == name for node in out):
        return Room(True, f"{name} is out of service already: no further room needed")
    for limit_name, what, ids in (("job", "job", jobs), ("user", "the jobs of uid", users)):
        poisoned = _poisoned(known, name, limit_name, ids, int(budget.get(f"nodes_per_{limit_name}", 0)), at)
        if poisoned:
            return _none(limit_name, f"{what} {poisoned}")
    if scope == "shared":
        alike = [node for node in out if _same(node, fault, device)]
        most = int(budget["shared_nodes"])
        if len(alike) >= most:
            what = f"{fault} {device}".strip()
            return _none(
                "shared", f"{what} has a shared cause; {_count(alike, most)}: one incident, not more drains"
            )
    alike = [node for node in out if _fault(node.reason) == fault]
    if len(alike) >= FEW and 2 * (len(alike) + 1) > len(known):
        return _none("incident", f"{_incident(fault, alike)} ({len(known)} nodes in all)")
    limit_name, full = _full(known, out, name, budget, at)
    if full:
        return _none(limit_name, f"{full}; {_incident(fault, alike)}" if len(alike) >= FEW else full)
    return Room(True, f"{len(out)} of {len(known)} nodes are out of service by the guard: there is room")


def _poisoned(nodes: list[NodeState], name: str, kind: str, ids: Iterable[int], most: int, now: float) -> str:
    """The first of some jobs or users for which enough other nodes were taken out within a day, and which."""
    for one in ids if most else ():
        lost = [node.name for node in nodes if node.name != name and _is_lost_to(node, kind, one, now)]
        if len(lost) >= most:
            names = ", ".join(lost[:_NAMED])
            return f"{one} cost {len(lost)} nodes in 24 h ({names}) of at most {most}: look at the job"
    return ""


def _is_lost_to(node: NodeState, kind: str, one: int, now: float) -> bool:
    entries = [entry for entry in tag.parse(node.comment) or [] if now - entry.at < DAY_S]
    return any(one in (entry.jobs if kind == "job" else entry.users) for entry in entries)


def _full(
    known: list[NodeState], out: list[NodeState], name: str, budget: Mapping[str, float], now: float
) -> tuple[str, str]:
    """Which budget has no room for one more node, and the sentence for it; both empty if all have."""
    for what, group in [("the cluster", known), *_partitions(known, name)]:
        here, most = [node for node in out if node in group], limit(budget, len(group))
        if len(here) >= most:
            limit_name = "nodes" if group is known else "partition"
            return limit_name, f"no room in the budget of {what}: {_count(here, most)}"
    lately, most = _within_the_hour(known, out, now), int(budget["per_hour"])
    if len(lately) < most:
        return "", ""
    return "per_hour", f"no room in the budget of an hour: {_count(lately, most)}"


def _incident(fault: str, alike: list[NodeState]) -> str:
    """What several nodes with one and the same fault, on whichever device, are."""
    return f"{fault} on {len(alike) + 1} nodes is one incident, look for what they share: no more drains"


def _within_the_hour(known: list[NodeState], out: list[NodeState], now: float) -> list[NodeState]:
    """Those drained in the last hour: still out, or with our note of it from before their return."""
    noted = [
        node for node in known if any(now - entry.at < HOUR_S for entry in tag.parse(node.comment) or [])
    ]
    return [
        node
        for node in known
        if node in noted or (node in out and node.reason_time is not None and now - node.reason_time < HOUR_S)
    ]


def _partitions(nodes: list[NodeState], name: str) -> list[tuple[str, list[NodeState]]]:
    own = next((node.partitions for node in nodes if node.name == name), ())
    return [(f"partition {one}", [node for node in nodes if one in node.partitions]) for one in own]


def _fault(reason: str) -> str:
    parsed = reasons.parse(reason)
    return parsed.fault if parsed is not None else ""


def _same(node: NodeState, fault: str, device: str) -> bool:
    parsed = reasons.parse(node.reason)
    wanted = reasons.parse(reasons.build(fault, device))
    return (
        parsed is not None
        and wanted is not None
        and (parsed.fault, parsed.device) == (wanted.fault, wanted.device)
    )


def _count(nodes: list[NodeState], most: int) -> str:
    names = ", ".join(node.name for node in nodes[:_NAMED]) + (", …" if len(nodes) > _NAMED else "")
    return f"{len(nodes)} of at most {most} are drained" + (f" ({names})" if names else "")
