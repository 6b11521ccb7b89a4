"""What a record must look like to fit the tables; anything else is refused with a RecordError.

Most records have the same keys with the same types. So the types of a whole object are compared with those
that were found right before, and only new ones are looked at key by key.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Any, NoReturn

from slurm_guard.core.errors import RecordError
from slurm_guard.core.outcome import STATUSES

MAJORS = ("0", "1", "2")
KINDS = ("run", "action")

_RUN_ID = re.compile(r"[0-9a-fA-F]{32}")
_WORD = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_NUMBER: Any = (int, float)
_TEXT_ONLY = frozenset((str,))
_NESTED = frozenset((dict, list))
_MOST = 2**63 - 1
#: No record is of a time outside these: what can be shown as a date, even after a long run.
_EARLIEST_MS, _LATEST_MS = 0, 7_258_118_400_000  # 1970 to 2199
_CENTURY_S = 3_200_000_000
#: From where to where numbers are kept; the end of a run is its start plus its `elapsed_ms`.
_RANGES = {"elapsed_ms": (0, 1000 * _CENTURY_S), "uptime_s": (0, _CENTURY_S)}
_ANY_NUMBER = (-(2**62), 2**62)
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
    "exit": (_NUMBER, False),
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
}
_ACTION_KEYS = {"parent": ((str,), False), "by": ((str,), True), "user": ((str,), False)}
_CHECKED = {"run": {**_KEYS, **_RUN_KEYS}, "action": {**_KEYS, **_ACTION_KEYS}}
KEYS = {kind: frozenset(keys) for kind, keys in _CHECKED.items()}
_NUMBERS = {
    kind: tuple(key for key, (types, _) in keys.items() if types is _NUMBER)
    for kind, keys in _CHECKED.items()
}

FINDING_TEXTS = (
    "message", "device", "device_id", "metric", "unit", "blame", "scope", "tier", "since", "remedy",
)  # fmt: skip
ACTION_TEXTS = ("device", "reason", "why", "answer")
ALLOCATION_NUMBERS = ("restart", "array_job_id", "array_task_id", "het_job_id", "uid")
ALLOCATION_TEXTS = ("user", "partition", "nodes")


def refuse(what: str) -> NoReturn:
    """Say what is wrong with a record."""
    raise RecordError(what)


def milliseconds(text: Any, where: str) -> int:
    """An ISO 8601 time as milliseconds since 1970; a time without a zone is UTC. Raises RecordError."""
    try:
        moment = datetime.fromisoformat(text)
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        found = round(zoned.timestamp() * 1000)
    except (ValueError, TypeError, OverflowError):
        refuse(f"{where} is {text!r:.60}, expected an ISO 8601 time")
    if not _EARLIEST_MS <= found < _LATEST_MS:
        refuse(f"{where} is {text!r:.60}, expected a time from 1970 to 2199")
    return found


def check(data: Any) -> None:
    """Refuse what is not the JSON object of a record."""
    if not isinstance(data, dict):
        refuse(f"expected a JSON object, found {type(data).__name__}")
    version = data.get("schema")
    if not isinstance(version, str) or version.partition(".")[0] not in MAJORS:
        refuse(f"schema is {version!r:.40}, this slurm_guard reads majors {', '.join(MAJORS)}")
    kind = data.get("kind")
    if kind not in KINDS:
        refuse(f"kind is {kind!r:.40}, expected {' or '.join(KINDS)}")
    _check_keys(data, kind)
    if not _RUN_ID.fullmatch(data["run_id"]):
        refuse(f"run_id is {data['run_id']!r:.60}, expected 32 hex digits")
    if not data["node"]:
        refuse("node is empty, expected Slurm's NodeName")
    _check_flat(data.get("machine"), "machine")
    _check_flat(data.get("plan"), "plan")
    for action in data.get("actions") or ():
        _check_action(action)
    if kind == "run":
        _check_run(data)


def _check_keys(data: dict[str, Any], kind: str) -> None:
    get = data.get
    types = (kind, *map(type, map(get, _CHECKED[kind])))
    if types not in _FOUND_GOOD:
        _check_types(data, kind)
        _remember(types)
    for key in _NUMBERS[kind]:
        value = get(key)
        least, most = _RANGES.get(key, _ANY_NUMBER)
        if value is not None and not least <= value <= most:
            refuse(f"{key} is {value!r:.40}, expected {least} to {most}")


#: The types of keys that were looked at one by one and found right: most records and findings have the same.
_FOUND_GOOD: set[tuple[Any, ...]] = set()
_MOST_FOUND = 5000


def _remember(types: tuple[Any, ...]) -> None:
    if len(_FOUND_GOOD) >= _MOST_FOUND:
        _FOUND_GOOD.clear()
    _FOUND_GOOD.add(types)


def _check_types(data: dict[str, Any], kind: str) -> None:
    for key, (types, required) in _CHECKED[kind].items():
        value = data.get(key)
        if value is None:
            if required:
                refuse(f"has no {key}")
        elif type(value) not in types:
            refuse(f"{key} is {type(value).__name__}, expected {types[0].__name__}")


def _check_run(data: dict[str, Any]) -> None:
    _check_word(data["hook"], "hook")
    if data["status"] not in STATUSES:
        refuse(f"status is {data['status']!r:.40}, expected one of {', '.join(STATUSES)}")
    for key in ("passed", "skipped"):
        if not _TEXT_ONLY.issuperset(map(type, data.get(key) or ())):
            refuse(f"{key} is not a list of check names")
    for key in ("values", "growths"):
        numbers = data.get(key)
        if numbers:
            _check_numbers(numbers, key)
    for result in data.get("results") or ():
        _check_result(result)
    if data.get("allocation") is not None:
        _check_allocation(data["allocation"])
    for key in ("others", "decisions"):
        if not all(isinstance(item, dict) for item in data.get(key) or ()):
            refuse(f"{key} is not a list of objects")


def _check_word(value: Any, where: str) -> None:
    if not isinstance(value, str) or not _WORD.fullmatch(value):
        refuse(f"{where} is {value!r:.60}, expected a lower-case word")


def _check_numbers(numbers: dict[str, Any], where: str) -> None:
    for name, value in numbers.items():
        if type(value) not in _NUMBER or not math.isfinite(value):
            refuse(f"{where} {name} is {value!r:.40}, expected a number")


def _check_whole(value: Any, where: str) -> None:
    if value is not None and (type(value) is not int or not 0 <= value <= _MOST):
        refuse(f"{where} is {value!r:.40}, expected a whole number of at most 63 bits")


def _check_texts(item: dict[str, Any], keys: tuple[str, ...], where: str) -> None:
    types = (keys, *map(type, map(item.get, keys)))
    if types in _FOUND_GOOD:
        return
    for key in keys:
        value = item.get(key)
        if value is not None and not isinstance(value, str):
            refuse(f"{where}: {key} is {type(value).__name__}, expected text")
    _remember(types)


def _check_flat(item: dict[str, Any] | None, where: str) -> None:
    if item and not _NESTED.isdisjoint(map(type, item.values())):
        refuse(f"{where} holds objects or lists, expected texts")


def _check_result(result: Any) -> None:
    if not isinstance(result, dict) or not isinstance(result.get("findings"), list):
        refuse("a result is not an object with a list of findings")
    if not isinstance(result.get("check"), str) or result.get("status") not in STATUSES:
        refuse("a result has no check or no valid status")
    for finding in result["findings"]:
        if not isinstance(finding, dict) or not isinstance(finding.get("fault"), str):
            refuse("a finding is not an object with a fault")
        if finding.get("status") not in STATUSES:
            refuse(f"finding {finding['fault']:.60}: status is {finding.get('status')!r:.40}")
        _check_texts(finding, FINDING_TEXTS, "a finding")


def _check_action(action: Any) -> None:
    if not isinstance(action, dict):
        refuse("an action is not an object")
    for key in ("action", "outcome"):
        _check_word(action.get(key), f"an action's {key}")
    _check_texts(action, ("fault", *ACTION_TEXTS), "an action")
    _check_whole(action.get("calls"), "an action's calls")
    _check_whole(action.get("job_id"), "an action's job_id")
    if action.get("at") is not None:
        milliseconds(action["at"], "an action's at")


def _check_allocation(allocation: dict[str, Any]) -> None:
    if type(allocation.get("job_id")) is not int:
        refuse(f"allocation: job_id is {allocation.get('job_id')!r:.40}, expected a number")
    for key in ("job_id", *ALLOCATION_NUMBERS):
        _check_whole(allocation.get(key), f"allocation: {key}")
    _check_texts(allocation, ALLOCATION_TEXTS, "allocation")
    if not isinstance(allocation.get("gpus") or [], list):
        refuse("allocation: gpus is not a list")
    if allocation.get("opened_at") is not None:
        milliseconds(allocation["opened_at"], "allocation: opened_at")
