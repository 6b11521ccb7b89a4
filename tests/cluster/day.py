"""A day of faults, drawn by a seed, and an oracle of its own for what must come of them.

The oracle is the table `CASES`: what a person would write down who knows the rules and not the code. Nothing
of the guard is asked here.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

#: Each case is a list of (what happens, healthchecks after it, what the guard must do in them).
#: `drain` is `held` where the budget has no room; the rest of such a case is a repair and nothing more.
CASES: dict[str, list[tuple[str, int, str]]] = {
    "a state that lasts": [
        ("break", 1, "nothing"),  # one run may be a fluke
        ("wait", 1, "drain"),
        ("mend", 1, "nothing"),  # one clean run is not enough
        ("wait", 1, "return"),
    ],
    "an event": [("break", 1, "drain"), ("reboot", 1, "nothing"), ("wait", 1, "return")],
    "a fluke": [("break", 1, "nothing"), ("mend", 2, "nothing")],
    "the user's own": [("break", 2, "nothing"), ("mend", 1, "nothing")],
    "an admin came first": [
        ("admin", 0, "nothing"),
        ("break", 2, "nothing"),
        ("reboot", 3, "nothing"),
        ("release", 0, "nothing"),
    ],
    "an admin's ticket": [
        ("break", 2, "drain"),
        ("edit", 0, "nothing"),
        ("mend", 3, "nothing"),
        ("release", 1, "nothing"),
    ],
    "a relapse": [
        ("break", 2, "drain"),
        ("mend", 2, "return"),
        ("break", 1, "drain"),  # at once: the node is being watched
        ("mend", 3, "nothing"),  # and it stays
        ("release", 1, "nothing"),
    ],
}
KINDS = {"an event": "event", "an admin came first": "event", "the user's own": "user"}
FAULTS = {
    "state": [("ib_link.down", f"mlx5_{i}/1") for i in range(8)]
    + [("gpu_pcie.width", f"gpu{i}") for i in range(8)]
    + [("fs_mounts.missing", "/local")],
    "event": [(f"gpu_xid.{code}", f"gpu{i}") for code in (48, 79, 95) for i in range(8)],
    "user": [("gpu_xid.31", f"gpu{i}") for i in range(8)],
}
#: What the kernel says besides: an incident of its own, and no reason to drain.
LINES = {"ib_link.down": "kernel_log.nic_cable"}
ADMIN, TICKET = "PDU of rack 9, ines", " OPS-4711"


@dataclass
class Story:
    """One node's case: which fault on which device, and what is still to come of it."""

    node: str
    case: str
    fault: str
    device: str
    left: list[tuple[str, int, str]] = field(default_factory=list)

    @property
    def reason(self) -> str:
        return f"SG:{self.fault} {self.device}"


def draw(nodes: list[str], seed: int, share: float) -> list[Story]:
    """A case for a share of the nodes."""
    chance = random.Random(seed)
    chosen = sorted(chance.sample(nodes, round(len(nodes) * share)))
    stories = []
    for node in chosen:
        case = chance.choice(list(CASES))
        fault, device = chance.choice(FAULTS[KINDS.get(case, "state")])
        stories.append(Story(node, case, fault, device, list(CASES[case])))
    return stories


class Oracle:
    """What must be, step by step. `budget` nodes may be out because of the guard, and `per_hour` be drained:
    the day takes less than an hour.
    """

    def __init__(self, budget: int, per_hour: int) -> None:
        self.budget = budget
        self.per_hour = per_hour
        self.lately: set[str] = set()
        self.out: set[str] = set()
        self.reasons: dict[str, str] = {}
        self.done: dict[str, list[tuple[str, str]]] = {}
        self.seen: dict[str, set[str]] = {}
        self.held = False

    def step(self, story: Story, event: str, expected: str) -> None:
        """One step of a story has been taken: note what must be so now."""
        node = story.node
        if event == "break" and story.case != "the user's own":
            for fault in {story.fault, LINES.get(story.fault, story.fault)}:
                self.seen.setdefault(fault, set()).add(node)
        if event == "admin":
            self.reasons[node] = ADMIN
        elif event == "edit":
            self.reasons[node] = story.reason + TICKET
        elif event == "release":
            self.reasons.pop(node, None)
            self.out.discard(node)
        if expected == "drain" and (len(self.out) >= self.budget or len(self.lately) >= self.per_hour):
            self.held = True
            story.left = [("reboot", 3, "nothing")]
        elif expected == "drain":
            self.out.add(node)
            self.lately.add(node)
            self.reasons[node] = story.reason
            self.done.setdefault(node, []).append(("drain", story.reason))
        elif expected == "return":
            self.out.discard(node)
            del self.reasons[node]
            self.done.setdefault(node, []).append(("resume", story.reason))

    def incidents(self) -> set[tuple[str, frozenset[str]]]:
        """(cause, nodes) of every incident of the day: three nodes with one fault are one."""
        found: set[tuple[str, frozenset[str]]] = set()
        for fault, nodes in self.seen.items():
            if len(nodes) >= 3:
                found.add((f"many nodes {fault}", frozenset(nodes)))
            else:
                found |= {(f"{node} {fault}", frozenset([node])) for node in nodes}
        return found
