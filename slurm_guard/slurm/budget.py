"""How many nodes the guard may take out of service at once. Pure: all nodes are handed in.

A prolog's refusal is a drain too, so every `Prolog error` counts. Faults whose cause is shared (a file
server, the fabric) have a smaller budget of their own: they are one incident, not many broken nodes. So is
one and the same fault on most nodes, whatever the budget: a configuration, a new check, an upgrade.
"""

from __future__ import annotations

import time

from slurm_guard.core import reason as reasons
from slurm_guard.slurm import states
from slurm_guard.slurm.states import Answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from slurm_guard.slurm.gateway import NodeState

_NAMED = 5
#: So many nodes with the same fault may be a coincidence no longer.
_FEW = 2
HOUR_S = 3600.0


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
) -> Answer:
    """May one more node, `name`, be drained for `fault` on `device`?

    `scope` `shared` is for a fault with a shared cause. A node that is out already needs no further room.
    `now` is in seconds since 1970, the present by default.
    """
    known = [node for node in nodes if node.base != "future"]
    out = drained(known)
    if any(node.name == name for node in out):
        return Answer(True, f"{name} is out of service already: no further room needed")
    if scope == "shared":
        alike = [node for node in out if _same(node, fault, device)]
        most = int(budget["shared_nodes"])
        if len(alike) >= most:
            what = f"{fault} {device}".strip()
            return Answer(
                False, f"{what} has a shared cause; {_count(alike, most)}: one incident, not more drains"
            )
    alike = [node for node in out if _fault(node.reason) == fault]
    if len(alike) >= _FEW and 2 * (len(alike) + 1) > len(known):
        return Answer(False, f"{_incident(fault, alike)} ({len(known)} nodes in all)")
    full = _full(known, out, name, budget, time.time() if now is None else now)
    if full:
        return Answer(False, f"{full}; {_incident(fault, alike)}" if len(alike) >= _FEW else full)
    return Answer(True, f"{len(out)} of {len(known)} nodes are out of service by the guard: there is room")


def _full(
    known: list[NodeState], out: list[NodeState], name: str, budget: Mapping[str, float], now: float
) -> str:
    """Which budget has no room for one more node; empty if all have."""
    for what, group in [("the cluster", known), *_partitions(known, name)]:
        here, most = [node for node in out if node in group], limit(budget, len(group))
        if len(here) >= most:
            return f"no room in the budget of {what}: {_count(here, most)}"
    lately, most = _within_the_hour(out, now), int(budget["per_hour"])
    return f"no room in the budget of an hour: {_count(lately, most)}" if len(lately) >= most else ""


def _incident(fault: str, alike: list[NodeState]) -> str:
    """What several nodes with one and the same fault, on whichever device, are."""
    return f"{fault} on {len(alike) + 1} nodes is one incident, look for what they share: no more drains"


def _within_the_hour(out: list[NodeState], now: float) -> list[NodeState]:
    """Those drained in the last hour and still out: Slurm's state knows of no others."""
    return [node for node in out if node.reason_time is not None and now - node.reason_time < HOUR_S]


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
