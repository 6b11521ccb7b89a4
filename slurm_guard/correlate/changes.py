"""What a look at the records changed."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Changes:
    """Numbers of incidents: new ones, those that are over, those that go on after all, those that another
    node or device joined, those that are part of another by now. `runs` counts the rows that were looked at.
    """

    opened: set[int] = field(default_factory=set)
    resolved: set[int] = field(default_factory=set)
    reopened: set[int] = field(default_factory=set)
    grown: set[int] = field(default_factory=set)
    merged: set[int] = field(default_factory=set)
    runs: int = 0

    @property
    def any(self) -> bool:
        """True if any incident is not what it was."""
        return bool(self.opened or self.resolved or self.reopened or self.grown or self.merged)
