"""Read nodes and jobs from the JSON of Slurm's programs and of slurmrestd, by shape and not by version.

Each data_parser changes shapes: a state is a string with `state_flags`, or one list of words; a number is a
value or `{"set", "infinite", "number"}`; a job's nodes are a text or an object.
"""

from __future__ import annotations

import json

from slurm_guard.core.errors import SlurmError, SlurmUnreachableError
from slurm_guard.slurm import state_words, values
from slurm_guard.slurm.gateway import JobInfo, NodeState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def document(text: str) -> dict[str, Any]:
    """A JSON answer without errors.

    Raises:
        SlurmUnreachableError: it says that the controller did not answer (22.05 then still ends with 0).
        SlurmError: it is no JSON object, or it lists errors.
    """
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SlurmError(f"Slurm's JSON cannot be read: {error}; it begins with {text[:80]!r}") from None
    if not isinstance(told, dict):
        raise SlurmError(f"expected a JSON object from Slurm, found {type(told).__name__}")
    problems = told.get("errors")
    if problems:
        said = values.one_line(json.dumps(problems))
        kind = SlurmUnreachableError if "unable to contact" in said.lower() else SlurmError
        raise kind(f"Slurm answered with errors: {said}")
    return told


def plugin(told: dict[str, Any]) -> str:
    """Which data_parser or plug-in wrote an answer, for messages; empty if it does not say."""
    meta = told.get("meta")
    found = meta.get("plugin") or meta.get("plugins") if isinstance(meta, dict) else None
    if not isinstance(found, dict):
        return ""
    return str(found.get("data_parser") or found.get("name") or found.get("type") or "")


def number(value: Any, short: bool = False) -> int | None:
    """A number in either shape; None if it is not set, infinite or one of Slurm's "no value" numbers."""
    if isinstance(value, dict):
        if value.get("infinite") or not value.get("set", True):
            return None
        value = value.get("number")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return values.real(int(value), short)
    except (ValueError, OverflowError):  # NaN and infinities
        return None


def nodes(told: dict[str, Any], read_at: float = 0.0) -> list[NodeState]:
    """The nodes of `scontrol show node --json`, `sinfo --json` or slurmrestd.

    Raises:
        SlurmError: there are none, or one of them has no name or no state.
    """
    if isinstance(told.get("sinfo"), list):
        return _grouped_nodes(told["sinfo"], read_at)
    rows = _rows(told, "nodes")
    return [_node(row, read_at) for row in rows]


def _rows(told: dict[str, Any], key: str) -> list[dict[str, Any]]:
    rows = told.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SlurmError(f"Slurm's JSON has no list {key!r}; it has {', '.join(sorted(told)) or 'nothing'}")
    if not rows and key == "nodes":
        raise SlurmError("Slurm's JSON has an empty list of nodes; expected every node asked for")
    return rows


def _node(row: dict[str, Any], read_at: float) -> NodeState:
    state = _state(row.get("state"), row.get("state_flags"))
    user, uid = values.user(_text(row.get("reason_set_by_user")))
    return NodeState(
        _name(row),
        state.base,
        state.flags,
        state.unknown_flags,
        reason=_text(row.get("reason")),
        reason_user=user,
        reason_uid=uid,
        reason_time=number(row.get("reason_changed_at")) or None,
        partitions=_strings(row.get("partitions")),
        comment=_text(row.get("comment")),
        raw=_words(row.get("state")),
        exact=state.exact,
        read_at=read_at,
    )


def _grouped_nodes(rows: list[Any], read_at: float) -> list[NodeState]:
    """sinfo's shape since 23.02: one entry for a group of alike nodes of a partition."""
    found: dict[str, NodeState] = {}
    for row in rows:
        partition = _text(_get(row, "partition", "name"))
        for name in _strings(_get(row, "nodes", "nodes")):
            if name in found:
                found[name].partitions += (partition,)
                continue
            found[name] = _node(_flat(row, name, partition), read_at)
    if not found:
        raise SlurmError("Slurm's JSON names no node; expected every node asked for")
    return list(found.values())


def _flat(row: dict[str, Any], name: str, partition: str) -> dict[str, Any]:
    reason = row.get("reason")
    reason = reason if isinstance(reason, dict) else {"description": reason}
    return {
        "name": name,
        "state": _get(row, "node", "state"),
        "reason": reason.get("description"),
        "reason_set_by_user": reason.get("user") or row.get("reason_set_by_user"),
        "reason_changed_at": reason.get("time"),
        "partitions": [partition] if partition else [],
        "comment": row.get("comment"),
    }


def jobs(told: dict[str, Any]) -> list[JobInfo]:
    """The jobs of `squeue --json`, `scontrol show job --json` or slurmrestd."""
    return [_job(row) for row in _rows(told, "jobs")]


def _job(row: dict[str, Any]) -> JobInfo:
    job_id = number(row.get("job_id"))
    if job_id is None or job_id < 1:
        raise SlurmError(f"Slurm's JSON has a job without an id: {values.one_line(json.dumps(row), 80)}")
    task = number(row.get("array_task_id"))
    state = _words(row.get("job_state"))
    code, sign = _exit(row.get("exit_code")) if values.ended(state) else (None, None)
    return JobInfo(
        job_id=job_id,
        array_job_id=number(row.get("array_job_id")) or None,
        array_task_id=task,
        het_job_id=number(row.get("het_job_id")) or None,
        name=row["name"] if isinstance(row.get("name"), str) else "",
        user=_text(row.get("user_name")),
        uid=number(row.get("user_id")),
        account=_text(row.get("account")),
        partition=_text(row.get("partition")),
        state=state,
        reason=_text(row.get("state_reason")),
        nodes=_job_nodes(row),
        tres=_text(row.get("tres_alloc_str")),
        admin_comment=_text(row.get("admin_comment")),
        restarts=number(row.get("restart_cnt"), short=True),
        start_time=number(row.get("start_time")) or None,
        end_time=number(row.get("end_time")) or None,
        submit_time=number(row.get("submit_time")) or None,
        exit_code=code,
        exit_signal=sign,
    )


def _job_nodes(row: dict[str, Any]) -> str:
    """The allocated nodes as a hostlist; an unallocated core in the details does not make a node ours."""
    for told in (row.get("nodes"), _get(row, "job_resources", "nodes")):
        found = told.get("list") if isinstance(told, dict) else told
        found = ",".join(_strings(found)) if isinstance(found, list) else found
        if isinstance(found, str) and found:
            return found
    return ""


def _exit(value: Any) -> tuple[int | None, int | None]:
    if isinstance(value, dict):
        signal = _get(value, "signal", "id") or _get(value, "signal", "signal_id")
        return number(value.get("return_code")) or 0, number(signal) or 0
    status = number(value)
    return (None, None) if status is None else values.wait_status(status)


def _state(words: Any, flags: Any) -> state_words.State:
    found = _strings(words) if isinstance(words, list) else [_text(words)]
    return state_words.parse(found, _strings(flags))


def _name(row: dict[str, Any]) -> str:
    name = row.get("name")
    if not isinstance(name, str) or not name:
        raise SlurmError(f"Slurm's JSON has a node without a name: {values.one_line(json.dumps(row), 80)}")
    return name


def _words(value: Any) -> str:
    return "+".join(_strings(value)) if isinstance(value, list) else _text(value)


def _strings(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    """A text; `UNKNOWN` is a real state here, so only what is empty stands for nothing."""
    return value.strip() if isinstance(value, str) else ""


def _get(row: Any, *keys: str) -> Any:
    for key in keys:
        row = row.get(key) if isinstance(row, dict) else None
    return row
