"""Whose turn it is to change Slurm's state: nodes that fail together do not all read "0 drained" at once.

Slurm has no compare-and-swap. Time is cut into slots, a node acts only in its own, so that the one before
has written what this one reads. With at most 16 nodes no two share a slot; in a larger cluster several do,
and a look afterwards withdraws what went past the budget. Nodes' clocks must agree to a few tens of
milliseconds, as munge asks for far less.
"""

from __future__ import annotations

import time

#: A read and an update cost about 40 ms together on a small cluster; the rest is room for a busy host.
SLOT_S = 0.16
MOST_SLOTS = 16
#: A write must start this long before the slot ends.
MARGIN_S = 0.05


def slot_of(node: str, nodes: list[str]) -> tuple[int, int]:
    """This node's slot and the number of slots in a round."""
    rank = nodes.index(node) if node in nodes else sum(node.encode())
    slots = max(1, min(len(nodes), MOST_SLOTS))
    return rank % slots, slots


def wait_s(slot: int, slots: int, now: float) -> float:
    """Seconds until this node's next turn starts; 0 in the first part of its own turn."""
    if slots == 1:
        return 0.0
    cycle = slots * SLOT_S
    into = (now - slot * SLOT_S) % cycle
    return 0.0 if into < SLOT_S / 4 else cycle - into


def remains(slot: int, slots: int, now: float) -> bool:
    """True while a write may still start in this node's turn."""
    if slots == 1:
        return True
    into = (now - slot * SLOT_S) % (slots * SLOT_S)
    return into < SLOT_S - MARGIN_S


def wait(node: str, nodes: list[str], deadline: float) -> bool:
    """Sleep until this node's turn; False (at once) if it would come after `deadline` (monotonic)."""
    pause = wait_s(*slot_of(node, nodes), time.time())
    if time.monotonic() + pause > deadline:
        return False
    time.sleep(pause)
    return True
