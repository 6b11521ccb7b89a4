"""The note that a drain leaves in the node's `Comment` in Slurm: for whose jobs the node was taken out.

It outlives the node's return, so that one read of all nodes tells how many were lost to one job or one user,
without a daemon: `slurm_guard drained 1796093659 jobs 1204 uids 1001 / 1796090021 jobs 77 uids 1001`, newest
first. A comment that is not exactly of this form is a person's and is never written over.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MARK = "slurm_guard drained "
_ENTRY = re.compile(
    r"([0-9]{1,11}) jobs ((?:[0-9]{1,10},)*[0-9]{1,10}|-) uids ((?:[0-9]{1,10},)*[0-9]{1,10}|-)"
)
_BETWEEN = " / "
#: What is kept: a node is seldom drained more often in a day, and a comment should stay short.
_MOST_ENTRIES, _MOST_IDS = 4, 8


class Entry:
    """One drain: when (unix seconds), with which jobs (ids) and users (uids) on the node."""

    __slots__ = ("at", "jobs", "users")

    def __init__(self, at: int, jobs: Iterable[int] = (), users: Iterable[int] = ()) -> None:
        self.at = at
        self.jobs = tuple(sorted(set(jobs)))[:_MOST_IDS]
        self.users = tuple(sorted(set(users)))[:_MOST_IDS]

    def __str__(self) -> str:
        return f"{self.at} jobs {_list(self.jobs)} uids {_list(self.users)}"


def parse(text: str) -> list[Entry] | None:
    """The entries of a comment, newest first; none where it is empty, None where it is somebody else's."""
    if not text:
        return []
    if not text.startswith(MARK):
        return None
    found = [_ENTRY.fullmatch(part) for part in text[len(MARK) :].split(_BETWEEN)]
    entries = [
        Entry(int(match[1]), _numbers(match[2]), _numbers(match[3])) for match in found if match is not None
    ]
    return entries if len(entries) == len(found) else None


def added(text: str, entry: Entry, oldest: float) -> str | None:
    """The comment with one more entry, without those from before `oldest`; None where it is a person's."""
    known = parse(text)
    if known is None:
        return None
    kept = [entry, *(one for one in known if one.at >= oldest)][:_MOST_ENTRIES]
    return MARK + _BETWEEN.join(str(one) for one in kept)


def taken_back(text: str) -> str | None:
    """The comment without its newest entry, for a drain that was withdrawn; None where it is a person's."""
    known = parse(text)
    if known is None:
        return None
    return MARK + _BETWEEN.join(str(one) for one in known[1:]) if known[1:] else ""


def _list(numbers: tuple[int, ...]) -> str:
    return ",".join(str(number) for number in numbers) or "-"


def _numbers(text: str) -> list[int]:
    return [] if text == "-" else [int(number) for number in text.split(",")]
