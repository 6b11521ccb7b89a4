"""All that belongs to one run of a hook, from its context to what it wants done."""

from __future__ import annotations

from slurm_guard.engine import syslog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.context import Context
    from slurm_guard.core.paths import Places
    from slurm_guard.core.plan import Plan
    from slurm_guard.core.policy import Decision
    from slurm_guard.engine.run_once import RunOutcome


class Run:
    """One run: where, by which plan, for whom, what was found, decided and asked for.

    `refusing` is the request for which the prolog refuses its job, None in every other run; `refused_at` is
    when (unix seconds) it said so. `stays` is an action for the record: why the node no longer comes back by
    itself, in the run that settled it. `waiting` are the (fault, device) whose drains waited on disk when
    this run began. `ends` (monotonic seconds) is the hook's deadline.
    """

    def __init__(self, places: Places, plan: Plan, context: Context, outcome: RunOutcome) -> None:
        self.places = places
        self.plan = plan
        self.context = context
        self.outcome = outcome
        self.decisions: list[Decision] = []
        self.requests: list[dict[str, Any]] = []
        self.refusing: dict[str, Any] | None = None
        self.refused_at = 0.0
        self.stays: dict[str, Any] | None = None
        self.waiting: set[tuple[str, str]] = set()
        self.ends = float("inf")

    def log(self, text: str, level: int = syslog.WARNING) -> None:
        """One line to the system log."""
        syslog.say(self.places.syslog, f"{self.context.hook}{self._job}: {text}", level)

    @property
    def _job(self) -> str:
        return f" of job {self.context.job_id}" if self.context.job_id else ""
