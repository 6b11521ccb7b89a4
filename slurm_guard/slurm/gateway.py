"""The only door to Slurm, as its callers see it: a base class for every door, and what comes through it."""

from __future__ import annotations

import re

from slurm_guard.core.errors import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Seconds that one call to Slurm may take unless its caller says otherwise.
DEADLINE_S = 3.0

_NODE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+-]{0,254}")
_JOB_ID = re.compile(r"[0-9]{1,10}(?:_[0-9]{1,10}|\+[0-9]{1,5})?")


class NodeState:
    """One node in normal form, whichever of Slurm's dialects told it.

    `base` is `idle`, `mixed`, `allocated`, `down`, `unknown`, `error` or `future`; `flags` are Slurm's flags
    in upper case under today's names (`DRAIN`, `POWERED_DOWN`); `unknown_flags` are words that this code does
    not know, kept as text. `exact` is False if the state was a short word that hides flags (`drained` may be
    `down` as well). `reason_user` is a name or `""`, `reason_uid` a number or None, `reason_time` seconds
    since 1970 or None. `read_at` is the monotonic second at which the answer was there.
    """

    __slots__ = (
        "base",
        "comment",
        "exact",
        "flags",
        "name",
        "partitions",
        "raw",
        "read_at",
        "reason",
        "reason_time",
        "reason_uid",
        "reason_user",
        "unknown_flags",
    )

    def __init__(  # noqa: PLR0913 - one argument for each column that Slurm prints
        self,
        name: str,
        base: str,
        flags: Iterable[str] = (),
        unknown_flags: Iterable[str] = (),
        *,
        reason: str = "",
        reason_user: str = "",
        reason_uid: int | None = None,
        reason_time: int | None = None,
        partitions: Iterable[str] = (),
        comment: str = "",
        raw: str = "",
        exact: bool = True,
        read_at: float = 0.0,
    ) -> None:
        self.name = name
        self.base = base
        self.flags = frozenset(flags)
        self.unknown_flags = frozenset(unknown_flags)
        self.reason = reason
        self.reason_user = reason_user
        self.reason_uid = reason_uid
        self.reason_time = reason_time
        self.partitions = tuple(partitions)
        self.comment = comment
        self.raw = raw
        self.exact = exact
        self.read_at = read_at

    @property
    def drained(self) -> bool:
        """Slurm starts no new job here (whether or not jobs still run)."""
        return "DRAIN" in self.flags

    @property
    def asleep(self) -> bool:
        """Switched off or being switched off by power saving; POWER_DOWN alone is a request: still up."""
        return not self.flags.isdisjoint({"POWERED_DOWN", "POWERING_DOWN"})

    def __str__(self) -> str:
        return "+".join([self.base.upper(), *sorted(self.flags), *sorted(self.unknown_flags)])

    def __repr__(self) -> str:
        return f"NodeState({self.name!r}, {self}, reason={self.reason!r})"


class JobInfo:
    """A job as slurmctld knows it now. Times are seconds since 1970 or None; `nodes` is a hostlist text.

    `exit_code` and `exit_signal` are numbers, or None while the job has not ended. Ids of array and
    heterogeneous jobs are None where the job is neither.
    """

    __slots__ = (
        "account",
        "admin_comment",
        "array_job_id",
        "array_task_id",
        "end_time",
        "exit_code",
        "exit_signal",
        "het_job_id",
        "job_id",
        "name",
        "nodes",
        "partition",
        "reason",
        "restarts",
        "start_time",
        "state",
        "submit_time",
        "tres",
        "uid",
        "user",
    )

    def __init__(self, **fields: object) -> None:
        self.job_id: int = 0
        self.array_job_id: int | None = None
        self.array_task_id: int | None = None
        self.het_job_id: int | None = None
        self.name = self.user = self.account = self.partition = ""
        self.uid: int | None = None
        self.state = self.reason = self.nodes = self.tres = self.admin_comment = ""
        self.restarts: int | None = None
        self.start_time: int | None = None
        self.end_time: int | None = None
        self.submit_time: int | None = None
        self.exit_code: int | None = None
        self.exit_signal: int | None = None
        for name, value in fields.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.job_id}, {self.state!r}, user={self.user!r}, nodes={self.nodes!r})"
        )


class JobRun(JobInfo):
    """One run of a job, or one of its steps, as accounting knows it; a requeued job has several.

    `accounted_id` is sacct's own id (`12_3.batch`), `step` its last part (`""` for the job itself).
    `derived_exit_code` is the highest exit code of all steps; `elapsed_s` is in seconds.
    """

    __slots__ = ("accounted_id", "derived_exit_code", "elapsed_s", "step")

    def __init__(self, **fields: object) -> None:
        self.accounted_id = ""
        self.step = ""
        self.elapsed_s: int | None = None
        self.derived_exit_code: int | None = None
        super().__init__(**fields)


class Gateway:
    """What every door to Slurm can do. `calls` counts the calls made through it.

    Each method raises SlurmUnreachableError (no answer within `deadline` seconds), SlurmRefusedError (not
    permitted, no such node or job, invalid state) or SlurmError (an answer that cannot be read).
    """

    calls = 0

    def nodes(self, names: Iterable[str] | None = None, deadline: float = DEADLINE_S) -> list[NodeState]:
        """All nodes, or those named, from one call; nodes in no partition may be missing."""
        raise NotImplementedError

    def node(self, name: str, deadline: float = DEADLINE_S) -> NodeState:
        """One node; it is an error if Slurm does not know it."""
        found = [node for node in self.nodes([name], deadline) if node.name == name]
        if len(found) != 1:
            raise SlurmError(
                f"Slurm told nothing about node {name!r}; expected its NodeName, as in slurm.conf"
            )
        return found[0]

    def drain(self, name: str, reason: str, deadline: float = DEADLINE_S, comment: str | None = None) -> None:
        """Set DRAIN with a reason. Overwrites any other reason: callers go through `ownership.safe_drain`.

        With `comment`, the node's comment is set in the same call.
        """
        raise NotImplementedError

    def drain_many(
        self, names: Iterable[str], reason: str, deadline: float = DEADLINE_S, comment: str | None = None
    ) -> None:
        """The same for many nodes in one call; all names must come from a read right before.

        An error says nothing of a single node: where one name is bad, Slurm drains the others all the same.
        """
        raise NotImplementedError

    def resume(self, name: str, deadline: float = DEADLINE_S, comment: str | None = None) -> None:
        """Clear DRAIN and DOWN. Callers go through `ownership.safe_resume`. `comment` as in `drain`."""
        raise NotImplementedError

    def job(self, job_id: int | str, deadline: float = DEADLINE_S) -> JobInfo | None:
        """A job that slurmctld still remembers, else None."""
        raise NotImplementedError

    def jobs_on(self, name: str, deadline: float = DEADLINE_S) -> list[JobInfo]:
        """The jobs that hold resources of a node now, completing ones included."""
        raise NotImplementedError

    def accounting(self, job_id: int | str, deadline: float = DEADLINE_S) -> list[JobRun]:
        """All runs and steps of a job on record, oldest first; empty for some seconds after a job's end."""
        raise NotImplementedError

    def set_admin_comment(self, job_id: int | str, text: str, deadline: float = DEADLINE_S) -> bool:
        """Set a job's AdminComment if it is empty; False if it was not, and then nothing is written."""
        raise NotImplementedError


def plain_node_name(name: str) -> str:
    """The name, if it can only mean one node; Slurm would also take hostlists and `ALL`.

    Raises:
        SlurmError: the name has brackets, commas or other characters of a pattern, or is `ALL`.
    """
    if _NODE_NAME.fullmatch(name) is None or name.upper() == "ALL":
        raise SlurmError(
            f"{name!r} is not a single NodeName; expected letters, digits and . _ - as in slurm.conf"
        )
    return name


def plain_job_id(job_id: int | str) -> str:
    """The id as text, if it is one job (`12`), array task (`12_3`) or het component (`12+1`).

    Raises:
        SlurmError: it is anything else.
    """
    text = str(job_id)
    if _JOB_ID.fullmatch(text) is None:
        raise SlurmError(f"{text!r} is not a job id; expected digits, e.g. 12, 12_3 or 12+1")
    return text
