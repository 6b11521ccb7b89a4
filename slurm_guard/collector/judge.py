"""Which orders are carried out: what came together is judged together. Pure: all it weighs is handed in.

A shared cause (a file server, the fabric) is judged across nodes first: so its orders wait a moment for each
other. Many nodes with the same new fault at once are one incident: either there is room for all of them, or
none is drained, since a few picked by chance help nobody.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from slurm_guard.collector.ledger import cause_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slurm_guard.collector.ledger import Ledger
    from slurm_guard.store.orders import Order

#: How long orders for one cause wait for each other: hooks of all nodes start together and jitter a little.
SETTLE_MS, SETTLE_SHARED_MS = 3_000, 15_000
#: So many nodes at once are no coincidence.
MANY = 3


class Held(NamedTuple):
    """An order that is not carried out, why, and which limit of the budget says so."""

    order: Order
    why: str
    limit: str


def ripe(orders: Iterable[Order], now: int) -> list[Order]:
    """Those orders whose cause has waited long enough for others; `now` in milliseconds."""
    found: list[Order] = []
    for some in _by_cause(orders).values():
        wait = SETTLE_SHARED_MS if some[0].scope == "shared" else SETTLE_MS
        first = min(order.made_at for order in some)
        if now - first >= wait or now < first:  # or the clock was put back
            found += some
    return found


def judge(orders: Iterable[Order], ledger: Ledger) -> tuple[list[Order], list[Held]]:
    """The orders to carry out, and those to hold, oldest cause first. What is carried out is taken."""
    go: list[Order] = []
    held: list[Held] = []
    for some in _by_cause(orders).values():
        together = _together(some, ledger)
        if together is not None:
            held += together
            continue
        for order in some:
            room = ledger.room(order)
            if room.ok:
                ledger.take(order)
                go.append(order)
            else:
                held.append(Held(order, room.why, room.limit))
    return go, held


def _together(some: list[Order], ledger: Ledger) -> list[Held] | None:
    """All of one cause held, as it is one incident; None if each may be judged by itself."""
    names = {order.node for order in some}
    first = some[0]
    if first.scope == "shared" and len(names) > 1:
        room = ledger.fits(some)
        said = f"{cause_text(first)} on {len(names)} nodes at once has a shared cause"
        limit = "shared"
    elif len(names) >= MANY:
        room = ledger.fits(some)
        said = f"{first.fault} on {len(names)} nodes at once: look for what they share"
        limit = "incident"
    else:
        return None
    if room.ok:
        return None
    return [Held(order, f"{said}: one incident and no drains; {room.why}", limit) for order in some]


def _by_cause(orders: Iterable[Order]) -> dict[tuple[str, str], list[Order]]:
    """A shared cause has an object (a mount), any other is a fault on whichever device."""
    found: dict[tuple[str, str], list[Order]] = defaultdict(list)
    for order in sorted(orders, key=lambda one: (one.made_at, one.id)):
        found[order.fault, order.device if order.scope == "shared" else ""].append(order)
    return found
