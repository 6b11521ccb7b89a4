"""What the probes of a run gave: facts, problems, and hangs."""

from __future__ import annotations

from slurm_guard.core.outcome import Facts
from slurm_guard.engine import child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Hang:
    """A probe, or one item of it, that did not answer.

    `confirmed`: the child outlived SIGKILL. `still`: it is a child of an earlier run that is still there.
    """

    __slots__ = ("channel", "confirmed", "key", "pid", "probe", "start_time", "still")

    def __init__(self, probe: str, key: str, pid: int, confirmed: bool = False, still: bool = False) -> None:
        self.probe = probe
        self.key = key
        self.pid = pid
        self.start_time = child.start_time(pid) if confirmed or still else None
        self.channel = child.describe(pid)[1] if confirmed or still else ""
        self.confirmed = confirmed
        self.still = still

    def as_facts(self) -> Facts:
        """The hang as one item of a streaming probe's facts."""
        return Facts(
            key=self.key,
            path=self.key,
            hung=True,
            confirmed=self.confirmed,
            still=self.still,
            pid=self.pid,
            wchan=self.channel,
        )


class Reading:
    """What all probes of a run gave: facts by probe, problems by probe, and the hangs.

    `partial` names the probes that gave only a part of their facts, and why.
    """

    __slots__ = ("facts", "hangs", "partial", "problems")

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.problems: dict[str, str] = {}
        self.partial: dict[str, str] = {}
        self.hangs: list[Hang] = []
