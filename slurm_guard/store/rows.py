"""From records to rows: one list of tuples per table, in the order of the table's columns."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from slurm_guard.core.outcome import PASS, SKIP
from slurm_guard.store.shape import FINDING_TEXTS, KEYS, milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slurm_guard.store.record import Record

_FINDING_KEYS = frozenset((*FINDING_TEXTS, "fault", "status", "value", "reference", "event"))
_ACTION_KEYS = frozenset(
    ("action", "fault", "device", "reason", "outcome", "why", "answer", "at", "calls", "job_id")
)  # fmt: skip

_MACHINE = ("boot_id", "machine_id", "serial")
_PLAN = ("hash", "state", "problem")


class Names(Protocol):
    """Gives the number of what is kept once: nodes, boots, guards, lists of checks, series."""

    def number(self, table: str, key: tuple[Any, ...]) -> int:
        """The number of a row with these values, made if there is none yet."""


class Rows:
    """Rows collected from records, to be inserted in one go."""

    def __init__(self) -> None:
        self.runs: list[tuple[Any, ...]] = []
        self.results: list[tuple[Any, ...]] = []
        self.findings: list[tuple[Any, ...]] = []
        self.actions: list[tuple[Any, ...]] = []
        self.node_samples: list[tuple[Any, ...]] = []
        self.opened: list[tuple[Any, ...]] = []
        self.closed: list[tuple[Any, ...]] = []
        self._all = tuple(self.__dict__.values())

    def count(self) -> int:
        """How many rows there are in all tables."""
        return sum(map(len, self._all))

    def add_whole(self, record: Record, run: int, names: Names) -> None:
        """Add all of a record's rows or, with the exceptions of `add`, none."""
        before = tuple(map(len, self._all))
        try:
            self.add(record, run, names)
        except BaseException:
            for table, length in zip(self._all, before, strict=True):
                del table[length:]
            raise

    def add(self, record: Record, run: int, names: Names) -> None:
        """Add a record's rows; `run` is the number of its row in `runs`.

        Raises ValueError, OverflowError or RecursionError for content that no table can hold.
        """
        data = record.data
        node = names.number("nodes", (data.get("cluster") or "", data["node"]))
        self.runs.append(_run(record, run, node, names))
        for number, action in enumerate(data.get("actions") or ()):
            self.actions.append(_action(action, run, node, record.started, number))
        if record.kind == "run":
            self._add_judged(data, run, node, record.started)
            self._add_samples(data, run, names)
            if data.get("allocation"):
                self._add_allocation(record, run, node)

    def _add_judged(self, data: dict[str, Any], run: int, node: int, started: int) -> None:
        worst: dict[str, str] = {}
        for result in data.get("results") or ():
            worst[result["check"]] = result["status"]
            for finding in result["findings"]:
                if finding["status"] not in (PASS, SKIP):
                    self.findings.append(_finding(finding, result["check"], run, node, started))
        self.results.extend((run, check, status) for check, status in worst.items())

    def _add_samples(self, data: dict[str, Any], run: int, names: Names) -> None:
        values, growths = data.get("values") or {}, data.get("growths") or {}
        add, number = self.node_samples.append, names.number
        for name, value in values.items():
            growth = growths.get(name)
            kept = None if growth is None else float(growth)
            add((run, number("series", (name,)), float(value), kept))
        for name, growth in growths.items():
            if name not in values:
                add((run, number("series", (name,)), None, float(growth)))

    def _add_allocation(self, record: Record, run: int, node: int) -> None:
        data = record.data
        hook, given = data["hook"], data["allocation"]
        row = _allocation(given, node, record.started, from_prolog=hook == "prolog")
        if hook == "prolog":
            self.opened.append((*row, None, run, None))
        elif hook == "epilog":
            self.closed.append((*row, record.started + round(data.get("elapsed_ms") or 0), None, run))


def _run(record: Record, run: int, node: int, names: Names) -> tuple[Any, ...]:
    data, is_run = record.data, record.kind == "run"
    machine, plan = data.get("machine") or {}, data.get("plan") or {}
    code = (data.get("guard_version") or "", data.get("check_set") or "" if is_run else "")
    boot = names.number("boots", (node, *[str(machine.get(key) or "") for key in _MACHINE]))
    guard = names.number("guards", (*code, *[str(plan.get(key) or "") for key in _PLAN]))
    return (
        run,
        record.run_id,
        record.kind,
        data["hook"] if is_run else data["by"],
        node,
        boot,
        guard,
        record.started,
        *(_of_run(data, names) if is_run else _NOT_OF_ACTIONS),
        data.get("exit") or None,
        *((None, None) if is_run else _of_action_record(data)),
        data["schema"],
        record.digest,
        _unknown(data, KEYS[record.kind]),
    )


def _of_run(data: dict[str, Any], names: Names) -> tuple[Any, ...]:
    """The columns `elapsed_ms` to `dropped`. A key that its kind of record does not have was not checked."""
    allocation = data.get("allocation") or {}
    return (
        data.get("elapsed_ms"),
        data.get("uptime_s"),
        data["status"],
        data.get("mode"),
        int(bool(data.get("drill"))),
        _list_number(data.get("passed"), names),
        _list_number(data.get("skipped"), names),
        allocation.get("job_id"),
        allocation.get("restart"),
        _json(data.get("others")),
        _json(data.get("coverage")),
        _json(data.get("decisions")),
        data.get("dropped") or None,
    )


#: The same columns of an action record.
_NOT_OF_ACTIONS = (None, None, "pass", None, 0, *(None,) * 8)


def _of_action_record(data: dict[str, Any]) -> tuple[str | None, bytes | None]:
    """The columns `user` and `parent`."""
    parent = data.get("parent")
    return data.get("user"), bytes.fromhex(parent) if parent else None


def _list_number(checks: list[str] | None, names: Names) -> int | None:
    """The number of a list of check names, which hold no spaces."""
    return names.number("check_lists", (" ".join(checks),)) if checks else None


def _finding(finding: dict[str, Any], check: str, run: int, node: int, started: int) -> tuple[Any, ...]:
    get = finding.get
    value = get("value")
    number = float(value) if type(value) is int or type(value) is float else None
    return (
        None,
        run,
        node,
        started,
        check,
        finding["fault"],
        finding["status"],
        get("device") or "",
        get("device_id"),
        get("message") or "",
        get("metric"),
        number,
        None if number is not None or value is None else _json(value),
        get("unit"),
        _json(get("reference")),
        get("blame"),
        get("scope"),
        get("tier"),
        int(bool(get("event"))),
        get("since"),
        get("remedy"),
        _unknown(finding, _FINDING_KEYS),
    )


def _action(action: dict[str, Any], run: int, node: int, started: int, number: int) -> tuple[Any, ...]:
    get = action.get
    # One millisecond apart at least, so that actions of one run without times of their own keep their order.
    at = milliseconds(get("at"), "at") if get("at") else started + number
    return (
        None,
        run,
        node,
        at,
        action["action"],
        get("fault") or "",
        get("device") or "",
        get("reason"),
        action["outcome"],
        get("why"),
        get("answer"),
        get("calls"),
        get("job_id"),
        _unknown(action, _ACTION_KEYS),
    )


def _allocation(given: dict[str, Any], node: int, started: int, *, from_prolog: bool) -> tuple[Any, ...]:
    """The columns of `allocations` up to `exit_code`; the caller adds closed, prolog_run, epilog_run."""
    get = given.get
    opened = milliseconds(get("opened_at"), "opened_at") if get("opened_at") else None
    sure = from_prolog or opened is not None
    exit_code = get("exit_code")
    return (
        None,
        node,
        given["job_id"],
        started if opened is None else opened,
        int(sure),
        get("restart"),
        int(sure),
        _start_time(get("start_time")),
        get("array_job_id"),
        get("array_task_id"),
        get("het_job_id"),
        get("uid"),
        get("user"),
        get("partition"),
        get("nodes"),
        _json(_texts(get("gpus") or ())),
        None if exit_code is None else str(exit_code),
    )


def _texts(items: Iterable[Any]) -> list[str]:
    return [item if isinstance(item, str) else str(item) for item in items]


def _start_time(value: Any) -> int | None:
    """Slurm's start time, in seconds or as ISO text, as milliseconds; None if it is neither."""
    if isinstance(value, (int, float)) and 0 < value < 1e11:
        return round(value * 1000)
    return milliseconds(value, "start_time") if isinstance(value, str) and value else None


def _unknown(given: dict[str, Any], known: frozenset[str]) -> str | None:
    """What a later version wrote and this one does not know, as JSON."""
    if known.issuperset(given):
        return None
    return _json({key: given[key] for key in sorted(given.keys() - known)})


def _json(value: Any) -> str | None:
    """Compact JSON; None for nothing. Raises ValueError for NaN and infinity."""
    if not value:
        return None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
