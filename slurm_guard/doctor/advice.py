"""One line of the doctor: what was looked at, how it is, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from slurm_guard.core.outcome import FAIL, PASS, SKIP, UNKNOWN, WARN

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The order of the answer among things of one status: what others follow from comes first.
TOPICS = ("plan", "slurm.conf", "hooks", "slurm", "gpu", "node", "files")
_GRAVEST_FIRST = (FAIL, WARN, UNKNOWN)


@dataclass(frozen=True, slots=True)
class Advice:
    """`status` is one of core.outcome's; `where` a file (and line); `remedy` is empty for a pass."""

    status: str
    topic: str
    what: str
    where: str = ""
    remedy: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The line as JSON shows it."""
        return asdict(self)


class Topic:
    """Makes the advice of one topic."""

    def __init__(self, name: str) -> None:
        self.name = name

    def good(self, what: str, where: str = "") -> Advice:
        """As it should be."""
        return Advice(PASS, self.name, what, where)

    def warn(self, what: str, where: str = "", remedy: str = "") -> Advice:
        """Works, but not as well as it could."""
        return Advice(WARN, self.name, what, where, remedy)

    def bad(self, what: str, where: str = "", remedy: str = "") -> Advice:
        """Keeps the guard from doing its work, or endangers jobs."""
        return Advice(FAIL, self.name, what, where, remedy)

    def unknown(self, what: str, where: str = "", remedy: str = "") -> Advice:
        """Could not be looked at."""
        return Advice(UNKNOWN, self.name, what, where, remedy)

    def skip(self, what: str, where: str = "") -> Advice:
        """Does not apply here."""
        return Advice(SKIP, self.name, what, where)


def order(advice: Iterable[Advice]) -> list[Advice]:
    """What has to be done first comes first; what is in order comes last, by topic."""
    return sorted(advice, key=lambda one: (_rank(one.status), TOPICS.index(one.topic)))


def _rank(status: str) -> int:
    return _GRAVEST_FIRST.index(status) if status in _GRAVEST_FIRST else len(_GRAVEST_FIRST)


def needs_a_person(advice: Iterable[Advice]) -> bool:
    """True if anything is worse than a skip."""
    return any(one.status not in (PASS, SKIP) for one in advice)
