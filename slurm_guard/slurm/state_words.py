"""One normal form for a node's state, read from every dialect in which Slurm writes it.

`sinfo` prints one word with suffixes (`drained*`), `scontrol` a base and flags (`IDLE+CLOUD+POWERED_DOWN`;
`IDLE*+CLOUD+POWER` before 21.08), JSON a string plus `state_flags` or one list of words.
"""

from __future__ import annotations

import re

from slurm_guard.core.errors import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

BASES = {
    "IDLE": "idle",
    "MIX": "mixed",
    "MIXED": "mixed",
    "ALLOC": "allocated",
    "ALLOCATED": "allocated",
    "DOWN": "down",
    "UNK": "unknown",
    "UNKNOWN": "unknown",
    "ERR": "error",
    "ERROR": "error",
    "FUTR": "future",
    "FUTURE": "future",
}

#: What a suffix of sinfo's word means (and of scontrol's before 21.08).
SUFFIXES = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
    "+": "COMPLETING",
}

#: Every word that stands for a flag, today's names and older or shorter ones.
FLAGS = {
    "BLOCK": "BLOCKED",
    "BLOCKED": "BLOCKED",
    "BOOT": "REBOOT_ISSUED",
    "CLOUD": "CLOUD",
    "COMP": "COMPLETING",
    "COMPLETING": "COMPLETING",
    "DRAIN": "DRAIN",
    "DRAINED": "DRAIN",
    "DRAINING": "DRAIN",
    "DRNG": "DRAIN",
    "DYNAMIC_FUTURE": "DYNAMIC_FUTURE",
    "DYNAMIC_NORM": "DYNAMIC_NORM",
    "FAIL": "FAIL",
    "FAILG": "FAIL",
    "FAILING": "FAIL",
    "INVAL": "INVALID_REG",
    "INVALID_REG": "INVALID_REG",
    "MAINT": "MAINTENANCE",
    "MAINTENANCE": "MAINTENANCE",
    "NOT_RESPONDING": "NOT_RESPONDING",
    "NO_RESPOND": "NOT_RESPONDING",
    "NPC": "PERFCTRS",
    "PERFCTRS": "PERFCTRS",
    "PLANNED": "PLANNED",
    "PLND": "PLANNED",
    "POWER": "POWERED_DOWN",
    "POWERED_DOWN": "POWERED_DOWN",
    "POWERING_DOWN": "POWERING_DOWN",
    "POWERING_UP": "POWERING_UP",
    "POWER_DOWN": "POWER_DOWN",
    "POWER_DRAIN": "POWER_DRAIN",
    "POWER_UP": "POWER_UP",
    "POW_DN": "POWER_DOWN",
    "POW_UP": "POWER_UP",
    "REBOOT": "REBOOT_REQUESTED",
    "REBOOT_CANCEL": "REBOOT_CANCEL",
    "REBOOT_CANCELED": "REBOOT_CANCEL",
    "REBOOT_ISSUED": "REBOOT_ISSUED",
    "REBOOT_REQUESTED": "REBOOT_REQUESTED",
    "RES": "RESERVED",
    "RESERVED": "RESERVED",
    "RESV": "RESERVED",
}

#: The base state behind a word that does not tell it: the one in which a node usually is then.
_IMPLIED = {"DRAINING": "allocated", "DRNG": "allocated", "FAILING": "allocated", "FAILG": "allocated"}
_NOT_REGISTERED = frozenset({"INVAL", "INVALID_REG", "NO_RESPOND", "NOT_RESPONDING"})

_SEPARATORS = re.compile(r"[+|,\s]+")
_WORD = re.compile(r"([A-Z0-9_]*)(.*)", re.DOTALL)


class State:
    """A node state in normal form; see `gateway.NodeState` for the fields."""

    __slots__ = ("base", "exact", "flags", "unknown_flags")

    def __init__(self) -> None:
        self.base = ""
        self.exact = True
        self.flags: set[str] = set()
        self.unknown_flags: set[str] = set()

    def take(self, word: str) -> None:
        """Add one word, its suffixes included; a word that nobody knows is kept as it is."""
        match = _WORD.fullmatch(word)
        name, suffixes = match.groups() if match else ("", word)
        self._take_name(name)
        for suffix in suffixes:
            if suffix in SUFFIXES:
                self.flags.add(SUFFIXES[suffix])
            else:
                self.unknown_flags.add(suffix)

    def _take_name(self, name: str) -> None:
        if name in FLAGS:
            self.flags.add(FLAGS[name])
        elif name in BASES and not self.base:
            self.base = BASES[name]
        elif name and BASES.get(name) != self.base:
            self.unknown_flags.add(name)

    def complete(self, words: list[str]) -> None:
        """Where no word told the base state, guess it, and remember that it is a guess."""
        if self.base:
            return
        self.exact = False
        names = {_SEPARATORS.split(word)[0].rstrip("".join(SUFFIXES)) for word in words}
        implied = [_IMPLIED[name] for name in names if name in _IMPLIED]
        known = bool(self.flags) and names.isdisjoint(_NOT_REGISTERED)
        self.base = implied[0] if implied else ("idle" if known else "unknown")


def parse(words: str | Iterable[str], flags: Iterable[str] = ()) -> State:
    """A state from text (`IDLE+DRAIN`, `mixed-`), or from JSON's list of words, with or without flags.

    Raises:
        SlurmError: there is no word at all; an empty answer is no state.
    """
    parts = [words] if isinstance(words, str) else list(words)
    found: list[str] = []
    for part in [*parts, *flags]:
        text = part.strip().upper()
        found += [word for word in _SEPARATORS.split(text) if word]
        if text.endswith("+") and found:
            found[-1] += "+"
    if not found:
        raise SlurmError("Slurm's answer has an empty node state; expected a word such as IDLE")
    state = State()
    for word in found:
        state.take(word)
    state.complete(found)
    return state
