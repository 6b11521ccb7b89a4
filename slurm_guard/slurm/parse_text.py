"""Read what Slurm's programs print, in a form that no reason, comment or job name can counterfeit.

`sinfo -O` and `squeue -O` print a suffix of our choice behind each field, `sacct -p` a delimiter: it is an
unguessable token, so fields may hold newlines, pipes or `key=value` text and are still told apart.
"""

from __future__ import annotations

import re

from slurm_guard.core.errors import SlurmError
from slurm_guard.slurm import host_names, state_words, values
from slurm_guard.slurm.gateway import JobInfo, JobRun, NodeState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NODE_FIELDS = ("NodeList", "PartitionName", "StateComplete", "UserLong", "Timestamp", "Comment", "Reason")
JOB_FIELDS = (
    "JobID",
    "ArrayJobID",
    "ArrayTaskID",
    "HetJobID",
    "State",
    "UserName",
    "UserID",
    "Account",
    "Partition",
    "StartTime",
    "EndTime",
    "SubmitTime",
    "RestartCnt",
    "exit_code",
    "NodeList",
    "tres-alloc",
    "Reason",
    "admin_comment",
    "Name",
)
RUN_FIELDS = (
    "JobID",
    "JobIDRaw",
    "State",
    "User",
    "UID",
    "Account",
    "Partition",
    "Start",
    "End",
    "Submit",
    "ElapsedRaw",
    "ExitCode",
    "DerivedExitCode",
    "NodeList",
    "AllocTRES",
    "Reason",
    "AdminComment",
    "JobName",
)


def records(text: str, token: str, width: int) -> list[list[str]]:
    """The fields of each record, where every field is followed by the token and a record by a newline.

    Raises:
        SlurmError: the answer does not end where a record ends: half of it is missing, or it is garbage.
    """
    fields = text.split(token)
    rest = fields.pop()
    if rest.strip() or len(fields) % width:
        raise SlurmError(
            f"Slurm's answer is torn: expected {width} fields a line; it ends with {text[-80:]!r}"
        )
    found = [fields[start : start + width] for start in range(0, len(fields), width)]
    for number, record in enumerate(found):
        if number and not record[0].startswith("\n"):
            raise SlurmError(f"Slurm's answer is torn: expected a new line before {record[0][:80]!r}")
        record[0] = record[0].lstrip("\n")
    return found


def nodes(text: str, token: str, read_at: float) -> list[NodeState]:
    """The nodes of `sinfo -O`: one line for alike nodes of a partition, named by a hostlist."""
    found: dict[str, NodeState] = {}
    for record in records(text, token, len(NODE_FIELDS)):
        partition = values.text(record[1])
        for name in _names(record[0]):
            known = found.get(name)
            if known is None:
                found[name] = _node(name, record, read_at)
            elif partition not in known.partitions:
                known.partitions += (partition,)
    return list(found.values())


def _names(text: str) -> list[str]:
    """The names of a line; none for a partition in which no node was asked for."""
    if not values.text(text):
        return []
    try:
        return host_names.expand(text)
    except host_names.HostlistError as error:
        raise SlurmError(f"Slurm's answer has node names that cannot be read: {error}") from None


def _node(name: str, record: list[str], read_at: float) -> NodeState:
    _, partition, raw, user, when, comment, reason = record
    state = state_words.parse(raw)
    owner, uid = values.user(user.strip())
    return NodeState(
        name,
        state.base,
        state.flags,
        state.unknown_flags,
        reason=values.text(reason),
        reason_user=owner,
        reason_uid=uid,
        reason_time=values.seconds(when),
        partitions=[partition.strip()] if values.text(partition) else [],
        comment=values.text(comment),
        raw=raw.strip(),
        exact=state.exact,
        read_at=read_at,
    )


def jobs(text: str, token: str) -> list[JobInfo]:
    """The jobs of `squeue -O`."""
    return [_job(record) for record in records(text, token, len(JOB_FIELDS))]


def _job(record: list[str]) -> JobInfo:
    told = dict(zip(JOB_FIELDS, record))
    ended = values.ended(told["State"].strip())
    code, sign = values.exit_status(told["exit_code"]) if ended else (None, None)
    return JobInfo(
        job_id=values.job_number(told["JobID"]),
        array_job_id=values.number(told["ArrayJobID"]) if values.text(told["ArrayTaskID"]) else None,
        array_task_id=values.number(told["ArrayTaskID"]),
        het_job_id=values.number(told["HetJobID"]) or None,
        name=told["Name"].rstrip(" "),
        uid=values.number(told["UserID"]),
        restarts=values.number(told["RestartCnt"], short=True),
        start_time=values.seconds(told["StartTime"]),
        end_time=values.seconds(told["EndTime"]),
        submit_time=values.seconds(told["SubmitTime"]),
        exit_code=code,
        exit_signal=sign,
        **_texts(told, _JOB_TEXTS),
    )


_JOB_TEXTS = {
    "state": "State",
    "user": "UserName",
    "account": "Account",
    "partition": "Partition",
    "nodes": "NodeList",
    "tres": "tres-alloc",
    "reason": "Reason",
    "admin_comment": "admin_comment",
}


def runs(text: str, token: str) -> list[JobRun]:
    """The runs and steps of `sacct -p -D`, in its order: oldest run first."""
    return [_run(record) for record in records(text, token, len(RUN_FIELDS))]


def _run(record: list[str]) -> JobRun:
    told = dict(zip(RUN_FIELDS, record))
    accounted, _, step = told["JobID"].partition(".")
    ended = values.ended(told["State"].strip())
    code, sign = values.exit_status(told["ExitCode"]) if ended else (None, None)
    array = re.fullmatch(r"(\d+)_(\d+)", accounted)
    return JobRun(
        accounted_id=told["JobID"],
        step=step,
        job_id=values.job_number(told["JobIDRaw"].partition(".")[0].partition("+")[0]),
        array_job_id=int(array.group(1)) if array else None,
        array_task_id=int(array.group(2)) if array else None,
        het_job_id=values.number(accounted.partition("+")[0]) if "+" in accounted else None,
        name=told["JobName"],
        uid=values.number(told["UID"]),
        start_time=values.seconds(told["Start"]),
        end_time=values.seconds(told["End"]),
        submit_time=values.seconds(told["Submit"]),
        elapsed_s=values.number(told["ElapsedRaw"]),
        exit_code=code,
        exit_signal=sign,
        derived_exit_code=values.exit_status(told["DerivedExitCode"])[0],
        **_texts(told, _RUN_TEXTS),
    )


_RUN_TEXTS = {
    "state": "State",
    "user": "User",
    "account": "Account",
    "partition": "Partition",
    "nodes": "NodeList",
    "tres": "AllocTRES",
    "reason": "Reason",
    "admin_comment": "AdminComment",
}


def _texts(told: dict[str, str], fields: dict[str, str]) -> dict[str, Any]:
    found = {ours: values.text(told[theirs]) for ours, theirs in fields.items()}
    found["nodes"] = "" if found["nodes"].startswith("None assigned") else found["nodes"]
    return found


ADDRESS_FIELDS = ("NodeList", "NodeAddr", "NodeHost")
_NAMED = re.compile(r"NodeName=(\S+) ")
_ADDRESS, _HOST = re.compile(r" NodeAddr=(\S+)"), re.compile(r" NodeHostName=(\S+)")


def addresses(text: str) -> dict[str, tuple[str, str]] | None:
    """NodeAddr and NodeHostName by NodeName, from `scontrol show node -o`; the NodeName where one is missing.

    The first word of a line that says so counts: what admins write (comment, reason) comes behind it. None if
    a node has two lines that differ: one of them was written into such a text, and nobody can tell which.
    """
    found: dict[str, tuple[str, str]] = {}
    for line in text.splitlines():
        named = _NAMED.match(line)
        if named is None:
            continue
        address, host = _ADDRESS.search(line), _HOST.search(line)
        pair = (address[1] if address else named[1], host[1] if host else named[1])
        if found.setdefault(named[1], pair) != pair:
            return None
    return found


def listed_addresses(text: str, token: str) -> dict[str, tuple[str, str]]:
    """The same from `sinfo -O`, which no text can counterfeit, but which takes seconds for 10,000 nodes."""
    rows = records(text, token, len(ADDRESS_FIELDS))
    return {name: (row[1].strip(), row[2].strip()) for row in rows for name in _names(row[0])}
