"""Read a run record: whatever the bytes are, the answer is a `Record` or a `RecordError`.

The shape is documented in docs/record.md. Majors 0 to 2 are read and unknown keys are kept; anything that
would not fit the tables (torn, foreign, wrong types, numbers beyond 64 bits, NUL characters) is refused.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from datetime import UTC, datetime
from typing import Any, NoReturn

from slurm_guard.core.errors import RecordError
from slurm_guard.core.outcome import STATUSES

#: A record is a few kilobytes; a larger file is not one.
LARGEST = 4 << 20
MAJORS = ("0", "1", "2")
KINDS = ("run", "action")

_RUN_ID = re.compile(r"[0-9a-fA-F]{32}")
_WORD = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_NUMBER: Any = (int, float)
_TEXT_ONLY = frozenset((str,))
_MOST = 2**63 - 1
#: Key: (accepted types, required). None is accepted for every key that is not required.
_KEYS: dict[str, tuple[tuple[type, ...], bool]] = {
    "schema": ((str,), True),
    "kind": ((str,), True),
    "run_id": ((str,), True),
    "node": ((str,), True),
    "started": ((str,), True),
    "cluster": ((str,), False),
    "machine": ((dict,), False),
    "guard_version": ((str,), False),
    "plan": ((dict,), False),
    "actions": ((list,), False),
}
_RUN_KEYS = {
    "hook": ((str,), True),
    "status": ((str,), True),
    "allocation": ((dict,), False),
    "others": ((list,), False),
    "check_set": ((str,), False),
    "mode": ((str,), False),
    "drill": ((bool,), False),
    "elapsed_ms": (_NUMBER, False),
    "uptime_s": (_NUMBER, False),
    "passed": ((list,), False),
    "skipped": ((list,), False),
    "results": ((list,), False),
    "coverage": ((dict,), False),
    "values": ((dict,), False),
    "growths": ((dict,), False),
    "decisions": ((list,), False),
    "dropped": (_NUMBER, False),
    "exit": (_NUMBER, False),
}
_ACTION_KEYS = {"parent": ((str,), False), "by": ((str,), True), "user": ((str,), False)}
KEYS = {
    "run": frozenset({**_KEYS, **_RUN_KEYS}),
    "action": frozenset({**_KEYS, **_ACTION_KEYS}),
}
_CHECKED = {"run": tuple({**_KEYS, **_RUN_KEYS}.items()), "action": tuple({**_KEYS, **_ACTION_KEYS}.items())}

FINDING_TEXTS = (
    "message", "device", "device_id", "metric", "unit", "blame", "scope", "tier", "since", "remedy",
)  # fmt: skip
ACTION_TEXTS = ("device", "reason", "why", "answer")
ALLOCATION_NUMBERS = ("restart", "array_job_id", "array_task_id", "het_job_id", "uid")
ALLOCATION_TEXTS = ("user", "partition", "nodes")


class Record:
    """A record that was read and found whole: `data` is the JSON object, the rest is made from it.

    `digest` tells two different records under one `run_id` apart; `started` is in milliseconds.
    """

    __slots__ = ("data", "digest", "kind", "run_id", "size", "started")

    def __init__(self, data: dict[str, Any], content: bytes) -> None:
        self.data = data
        self.kind: str = data["kind"]
        self.run_id = bytes.fromhex(data["run_id"])
        self.started = milliseconds(data["started"], "started")
        self.digest = zlib.crc32(content)
        self.size = len(content)


def parse(content: bytes) -> Record:
    """Read one record. Raises RecordError with what is wrong and what was expected."""
    if len(content) > LARGEST:
        _refuse(f"{len(content)} bytes, at most {LARGEST} are a record")
    try:
        text = content.decode()
        data = _DECODER.decode(text)
        if "\\u" in text:
            _check_text(data)
        _check(data)
        return Record(data, content)
    except RecordError:
        raise
    except RecursionError:
        raise RecordError("nested too deeply to be a record") from None
    except (ValueError, OverflowError, TypeError, AttributeError) as error:
        raise RecordError(f"torn or not JSON: {error}"[:300]) from None


def milliseconds(text: Any, where: str) -> int:
    """An ISO 8601 time as milliseconds since 1970; a time without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(text)
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return round(zoned.timestamp() * 1000)
    except (ValueError, TypeError, OverflowError):
        _refuse(f"{where} is {text!r:.60}, expected an ISO 8601 time")


def _refuse(what: str) -> NoReturn:
    raise RecordError(what)


def _no_constant(name: str) -> NoReturn:
    _refuse(f"holds {name}, which is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def _check_text(value: Any) -> None:
    """Refuse what a database cannot keep: NUL characters and lone surrogates."""
    if isinstance(value, str):
        if "\0" in value:
            _refuse("holds a NUL character")
        value.encode()
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_text(key)
            _check_text(item)
    elif isinstance(value, list):
        for item in value:
            _check_text(item)


def _check(data: Any) -> None:
    if not isinstance(data, dict):
        _refuse(f"expected a JSON object, found {type(data).__name__}")
    version = data.get("schema")
    if not isinstance(version, str) or version.partition(".")[0] not in MAJORS:
        _refuse(f"schema is {version!r:.40}, this slurm_guard reads majors {', '.join(MAJORS)}")
    kind = data.get("kind")
    if kind not in KINDS:
        _refuse(f"kind is {kind!r:.40}, expected {' or '.join(KINDS)}")
    _check_keys(data, kind)
    if not _RUN_ID.fullmatch(data["run_id"]):
        _refuse(f"run_id is {data['run_id']!r:.60}, expected 32 hex digits")
    if not data["node"]:
        _refuse("node is empty, expected Slurm's NodeName")
    _check_flat(data.get("machine"), "machine")
    _check_flat(data.get("plan"), "plan")
    for action in data.get("actions") or ():
        _check_action(action)
    if kind == "run":
        _check_run(data)


def _check_keys(data: dict[str, Any], kind: str) -> None:
    for key, (types, required) in _CHECKED[kind]:
        value = data.get(key)
        if value is None:
            if required:
                _refuse(f"has no {key}")
        elif type(value) not in types:
            _refuse(f"{key} is {type(value).__name__}, expected {types[0].__name__}")
        elif types is _NUMBER and not -_MOST <= value <= _MOST:
            _refuse(f"{key} is beyond 64 bits")


def _check_run(data: dict[str, Any]) -> None:
    _check_word(data["hook"], "hook")
    if data["status"] not in STATUSES:
        _refuse(f"status is {data['status']!r:.40}, expected one of {', '.join(STATUSES)}")
    for key in ("passed", "skipped"):
        if not _TEXT_ONLY.issuperset(map(type, data.get(key) or ())):
            _refuse(f"{key} is not a list of check names")
    for key in ("values", "growths"):
        for name, value in (data.get(key) or {}).items():
            _check_number(value, f"{key} {name}")
    for result in data.get("results") or ():
        _check_result(result)
    if data.get("allocation") is not None:
        _check_allocation(data["allocation"])
    for key in ("others", "decisions"):
        if not all(isinstance(item, dict) for item in data.get(key) or ()):
            _refuse(f"{key} is not a list of objects")


def _check_word(value: Any, where: str) -> None:
    if not isinstance(value, str) or not _WORD.fullmatch(value):
        _refuse(f"{where} is {value!r:.60}, expected a lower-case word")


def _check_number(value: Any, where: str) -> None:
    if type(value) not in _NUMBER or not math.isfinite(value):
        _refuse(f"{where} is {value!r:.40}, expected a number")


def _check_whole(value: Any, where: str) -> None:
    if value is not None and (type(value) is not int or not 0 <= value <= _MOST):
        _refuse(f"{where} is {value!r:.40}, expected a whole number of at most 63 bits")


def _check_texts(item: dict[str, Any], keys: tuple[str, ...], where: str) -> None:
    for key in keys:
        value = item.get(key)
        if value is not None and not isinstance(value, str):
            _refuse(f"{where}: {key} is {type(value).__name__}, expected text")


def _check_flat(item: dict[str, Any] | None, where: str) -> None:
    for key, value in (item or {}).items():
        if isinstance(value, (dict, list)):
            _refuse(f"{where}: {key} is {type(value).__name__}, expected text")


def _check_result(result: Any) -> None:
    if not isinstance(result, dict) or not isinstance(result.get("findings"), list):
        _refuse("a result is not an object with a list of findings")
    if not isinstance(result.get("check"), str) or result.get("status") not in STATUSES:
        _refuse("a result has no check or no valid status")
    for finding in result["findings"]:
        if not isinstance(finding, dict) or not isinstance(finding.get("fault"), str):
            _refuse("a finding is not an object with a fault")
        where = f"finding {finding['fault']:.60}"
        if finding.get("status") not in STATUSES:
            _refuse(f"{where}: status is {finding.get('status')!r:.40}")
        _check_texts(finding, FINDING_TEXTS, where)


def _check_action(action: Any) -> None:
    if not isinstance(action, dict):
        _refuse("an action is not an object")
    for key in ("action", "outcome"):
        _check_word(action.get(key), f"an action's {key}")
    _check_texts(action, ("fault", *ACTION_TEXTS), "an action")
    _check_whole(action.get("calls"), "an action's calls")
    _check_whole(action.get("job_id"), "an action's job_id")
    if action.get("at") is not None:
        milliseconds(action["at"], "an action's at")


def _check_allocation(allocation: dict[str, Any]) -> None:
    if type(allocation.get("job_id")) is not int:
        _refuse(f"allocation: job_id is {allocation.get('job_id')!r:.40}, expected a number")
    for key in ("job_id", *ALLOCATION_NUMBERS):
        _check_whole(allocation.get(key), f"allocation: {key}")
    _check_texts(allocation, ALLOCATION_TEXTS, "allocation")
    if not isinstance(allocation.get("gpus") or [], list):
        _refuse("allocation: gpus is not a list")
    if allocation.get("opened_at") is not None:
        milliseconds(allocation["opened_at"], "allocation: opened_at")
