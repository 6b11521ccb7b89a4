"""What Slurm's accounting told about one run of a job, in normal form; everything in it may be missing."""

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
    ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
     "REQUEUED", "REVOKED", "TIMEOUT")
)  # fmt: skip
#: A run on record and one in accounting are the same if they start within this.
_NEAR_MS = 10 * 60_000


@dataclass(slots=True)
class Told:
    """One run as accounting knows it; times in milliseconds, `exit` as `CODE:SIGNAL`.

    `problem` says why accounting told nothing (`""` if it did).
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

    @property
    def ended(self) -> bool:
        """True if the run has ended for sure."""
        return self.state in FINAL

    @property
    def succeeded(self) -> bool:
        """True if the run ended well."""
        return self.state == "COMPLETED" and self.exit in ("", "0:0")


def told_by(
    accounting: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None, runs: Sequence[JobRun]
) -> list[Told]:
    """What accounting told about each run, in their order.

    `accounting` is one mapping, several (one per run), or None; keys: state, exit_code (number or `1:0`),
    exit_signal, submit_time, start_time, end_time (seconds or ISO text), user, account, name, partition,
    nodes, reason, restarts, step (ignored unless empty), problem (why there is nothing).
    """
    if accounting is None:
        return [Told(problem="Slurm's accounting was not asked") for _ in runs]
    given = [accounting] if isinstance(accounting, Mapping) else list(accounting)
    problem = next((str(one["problem"]) for one in given if one.get("problem")), "")
    left = [_told(one) for one in given if not one.get("problem") and not one.get("step")]
    if left and not problem:
        problem = "Slurm's accounting has nothing on this run"
    absent = problem or "Slurm's accounting has no such job; it lags some seconds behind"
    if len(runs) == 1 and len(left) == 1:
        return left
    found = _matched(left, runs)
    return [found.get(position) or Told(problem=absent) for position in range(len(runs))]


def _matched(left: list[Told], runs: Sequence[JobRun]) -> dict[int, Told]:
    """Which run of accounting is which on record: those that start nearest to each other, each once."""
    pairs = sorted(
        (abs(one.start - run.opened), position, number)
        for position, run in enumerate(runs)
        for number, one in enumerate(left)
        if one.start is not None and abs(one.start - run.opened) <= _NEAR_MS
    )
    found: dict[int, Told] = {}
    taken: set[int] = set()
    for _, position, number in pairs:
        if position not in found and number not in taken:
            found[position] = left[number]
            taken.add(number)
    return found


def _told(one: Mapping[str, Any]) -> Told:
    words = str(one.get("state") or "").split()
    return Told(
        state=words[0].upper().rstrip("+") if words else "",
        exit=_exit(one.get("exit_code"), one.get("exit_signal")),
        submit=_time(one.get("submit_time")),
        start=_time(one.get("start_time")),
        end=_time(one.get("end_time")),
        restarts=one.get("restarts") if isinstance(one.get("restarts"), int) else None,
        **{
            key: str(one.get(key) or "")
            for key in ("user", "account", "name", "partition", "nodes", "reason")
        },
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
