"""What Slurm's programs say, for people: in one line, and no longer than it must be."""

from __future__ import annotations

import re

_PROGRAMS_WORD = re.compile(r"\s*\b\w+: (?:error|fatal): ")
_LONGEST = 200


def printable(text: str) -> str:
    """A foreign text in one line, without control characters."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def brief(text: str) -> str:
    """What Slurm's programs say in several sentences, as the last of them: that one says why they gave up."""
    first, *others = _PROGRAMS_WORD.split(printable(text))
    said = f"{first.removesuffix(':')}: {others[-1]}" if others and first else text
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"
