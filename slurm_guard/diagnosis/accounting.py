"""What Slurm told about one run of a job, in normal form; everything in it may be missing.

Accounting knows every run; where there is none, slurmctld tells of the job's last run for some minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurm_guard.store.model import JobRun

#: States in which a run has ended.
FINAL = frozenset(
    ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL",
     "OUT_OF_MEMORY", "PREEMPTED", "RECONFIG_FAIL", "REQUEUED", "REVOKED", "TIMEOUT")
)  # fmt: skip
#: States in which Slurm tells when a run will start or end at the latest, and an exit code that says nothing.
_ENDLESS = frozenset(
    ("CONFIGURING", "PENDING", "REQUEUE_HOLD", "RESIZING", "RUNNING", "SIGNALING", "STOPPED", "SUSPENDED")
)
#: States of a requeued job that is held; PENDING ones say so in their reason: `launch failed requeued held`.
_HELD = frozenset(("REQUEUE_HOLD", "SPECIAL_EXIT"))
#: A run on record and one in accounting are the same if they start within this.
_NEAR_MS = 10 * 60_000
#: The only one of each is the same too, unless an id was recycled: a cloud's node may boot for an hour.
_SAME_ID_MS = 86_400_000
#: What is the same in all runs of a job.
_OF_THE_JOB = ("user", "account", "name", "partition")


@dataclass(slots=True)
class Told:
    """One run as accounting knows it; times in milliseconds, `exit` as `CODE:SIGNAL`.

    `problem` says why accounting told nothing (`""` if it did); `followed` is True if the job was requeued
    and a later run of it is known.
    """

    state: str = ""
    exit: str = ""
    submit: int | None = None
    start: int | None = None
    end: int | None = None
    user: str = ""
    account: str = ""
    name: str = ""
    partition: str = ""
    nodes: str = ""
    reason: str = ""
    restarts: int | None = None
    problem: str = ""
    followed: bool = False

    @property
    def ended(self) -> bool:
        """True if the run has ended for sure."""
        return self.state in FINAL

    @property
    def held(self) -> bool:
        """True if Slurm starts the job only when somebody releases it."""
        return self.state in _HELD or (self.state == "PENDING" and "held" in self.reason.lower())

    @property
    def succeeded(self) -> bool:
        """True if the run ended well."""
        return self.state == "COMPLETED" and self.exit in ("", "0:0")


def told_by(
    accounting: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None, runs: Sequence[JobRun]
) -> list[Told]:
    """What Slurm told about each run, in their order; `problem` where it told nothing.

    `accounting` is one mapping, several (one per run), or None; keys: state, exit_code (number or `1:0`),
    exit_signal, submit_time, start_time, end_time (seconds or ISO text), user, account, name, partition,
    nodes, reason, restarts, step (ignored unless empty), problem (why there is nothing, or not all).
    """
    rows = _rows(accounting)
    found = _matched(rows, runs)
    absent = _why_absent(accounting, rows)
    told = [found.get(position) or _unknown(rows, absent) for position in range(len(runs))]
    counts = [run.restart for run in runs] + [one.restarts for one in rows]
    for one, run in zip(told, runs, strict=True):
        later = any(count is not None and count > (run.restart or 0) for count in counts)
        one.followed = later or one.state == "REQUEUED"
    return told


def not_on_record(
    accounting: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None, runs: Sequence[JobRun]
) -> Told | None:
    """The last run that Slurm told of and the records do not hold: a requeued job that waits, for example."""
    rows = _rows(accounting)
    taken = {id(one) for one in _matched(rows, runs).values()}
    return next((one for one in reversed(rows) if id(one) not in taken), None)


def _rows(accounting: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None) -> list[Told]:
    given = [accounting] if isinstance(accounting, Mapping) else list(accounting or ())
    return [_told(one) for one in given if not one.get("problem") and not one.get("step")]


def _unknown(rows: list[Told], problem: str) -> Told:
    """A run that Slurm told nothing of; who owns the job is the same in all its runs."""
    one = Told(problem=problem)
    for key in _OF_THE_JOB:
        setattr(one, key, next((getattr(row, key) for row in rows if getattr(row, key)), ""))
    return one


def _why_absent(accounting: Any, rows: list[Told]) -> str:
    """Why Slurm told nothing of a run."""
    if accounting is None:
        return "Slurm's accounting was not asked"
    given = [accounting] if isinstance(accounting, Mapping) else list(accounting)
    problem = next((str(one["problem"]) for one in given if one.get("problem")), "")
    if not rows:
        return problem or "Slurm's accounting has no such job; it lags some seconds behind"
    if any(one.restarts for one in rows):
        told = f"Slurm's controller remembers only the job's last run, restart {rows[-1].restarts}"
        return f"{told}; {problem}" if problem else told
    return problem or "Slurm's accounting has nothing on this run"


def _matched(rows: list[Told], runs: Sequence[JobRun]) -> dict[int, Told]:
    """Which run of Slurm's is which on record: those that start nearest to each other, each once.

    A single one that counts its restarts (slurmctld tells of the last run only) must agree in that count.
    """
    if len(rows) == 1:
        fitting = [position for position, run in enumerate(runs) if _may_be(rows[0], run)]
        if len(fitting) == 1 and (len(runs) == 1 or rows[0].restarts is not None):
            return {fitting[0]: rows[0]}
        runs_left = set(fitting)
    else:
        runs_left = set(range(len(runs)))
    return _nearest(rows, runs, runs_left)


def _may_be(one: Told, run: JobRun) -> bool:
    """False for another run than the one on record, or another job: ids are recycled."""
    if one.start is not None and abs(one.start - run.opened) > _SAME_ID_MS:
        return False
    if one.restarts is None or run.restart is None or not run.first.restart_sure:
        return True
    return one.restarts == run.restart


def _nearest(rows: list[Told], runs: Sequence[JobRun], allowed: set[int]) -> dict[int, Told]:
    pairs = sorted(
        (abs(one.start - run.opened), position, number)
        for position, run in enumerate(runs)
        for number, one in enumerate(rows)
        if position in allowed and one.start is not None and abs(one.start - run.opened) <= _NEAR_MS
    )
    found: dict[int, Told] = {}
    taken: set[int] = set()
    for _, position, number in pairs:
        if position not in found and number not in taken:
            found[position] = rows[number]
            taken.add(number)
    return found


def _told(one: Mapping[str, Any]) -> Told:
    words = str(one.get("state") or "").split()
    state = words[0].upper().rstrip("+") if words else ""
    goes_on = state in _ENDLESS
    return Told(
        state=state,
        exit="" if goes_on else _exit(one.get("exit_code"), one.get("exit_signal")),
        submit=_time(one.get("submit_time")),
        start=None if state == "PENDING" else _time(one.get("start_time")),
        end=None if goes_on else _time(one.get("end_time")),
        restarts=one.get("restarts") if isinstance(one.get("restarts"), int) else None,
        user=str(one.get("user") or ""),
        account=str(one.get("account") or ""),
        name=str(one.get("name") or ""),
        partition=str(one.get("partition") or ""),
        nodes=str(one.get("nodes") or ""),
        reason=str(one.get("reason") or ""),
    )


def _exit(code: Any, signal: Any) -> str:
    if code is None or code == "":
        return ""
    return str(code) if ":" in str(code) else f"{code}:{signal or 0}"


def _time(value: Any) -> int | None:
    """Seconds or ISO text as milliseconds; None for nothing, zero and words such as `Unknown`."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return round(value * 1000) if 0 < value < 1e11 else None
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
