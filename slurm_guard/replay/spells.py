"""Times that nodes were out of service, in the replay and in fact, and where the two differ."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Spell:
    """A node out of service because of the guard from `at` until `until` (ms; None: it has not ended).

    `early`: it began before the time that is asked about. `then` is what the node itself decided (of a
    replayed drain) or what the replay said (of a real one).
    """

    node: str
    at: int
    fault: str
    device: str
    action: str = "drain"
    tier: str = ""
    why: str = ""
    rules: list[str] = field(default_factory=list)
    then: str = ""
    until: int | None = None
    early: bool = False

    def overlaps(self, other: Spell) -> bool:
        """True if both have the node out of service at some time."""
        return _before(self.at, other.until) and _before(other.at, self.until)


def _before(at: int, end: int | None) -> bool:
    return end is None or at <= end


class Ledger:
    """All spells of one side in order of time, refusals and returns by node.

    `most` were out at once, first at `most_at`.
    """

    def __init__(self) -> None:
        self.spells: list[Spell] = []
        self.refusals: Counter[str] = Counter()
        self.returns: Counter[str] = Counter()
        self.most = 0
        self.most_at: int | None = None
        self._open: dict[str, Spell] = {}

    def is_out(self, node: str) -> bool:
        """True while a node is out."""
        return node in self._open

    def out_since(self, node: str) -> int | None:
        """When a node that is out went; None for one in service."""
        spell = self._open.get(node)
        return None if spell is None else spell.at

    def begin(self, spell: Spell) -> None:
        """A node goes out of service."""
        self.spells.append(spell)
        self._open[spell.node] = spell

    def measure(self, at: int) -> None:
        """Look how many are out now; asked after each change within the time that is asked about."""
        if len(self._open) > self.most:
            self.most, self.most_at = len(self._open), at

    def end(self, node: str, at: int) -> bool:
        """A node is back; False if it was not out."""
        spell = self._open.pop(node, None)
        if spell is not None:
            spell.until = at
        return spell is not None


def differences(would: Ledger, did: Ledger) -> tuple[list[Spell], list[Spell], list[tuple[Spell, Spell]]]:
    """Drains of the replay alone, those of the past alone, and those of both, in pairs.

    Two are the same if the node was out at some same time, whenever each began and for whatever fault.
    """
    theirs: dict[str, list[Spell]] = {}
    for one in did.spells:
        theirs.setdefault(one.node, []).append(one)
    only_would, pairs = [], []
    met: set[int] = set()
    for one in would.spells:
        same = [other for other in theirs.get(one.node, ()) if one.overlaps(other)]
        met.update(id(other) for other in same)
        if same:
            pairs += [(one, same[0])] if not (one.early and same[0].early) else []
        elif not one.early:
            only_would.append(one)
    only_did = [one for one in did.spells if id(one) not in met and not one.early]
    return only_would, only_did, pairs
