"""The report on a node as text: at most 80 columns, plain, in UTC."""

from __future__ import annotations

from typing import Any

from slurm_guard.core.outcome import UNKNOWN
from slurm_guard.report.actions import sentence
from slurm_guard.report.incidents import named_lines
from slurm_guard.report.layout import section, span, table, unix, when, wrap
from slurm_guard.report.open_faults import fault_lines
from slurm_guard.store import fleet
from slurm_guard.store.model import CLEAN

WIDTH = 80
_MOST_LINES = 10


def text(report: dict[str, Any], width: int = WIDTH) -> str:
    """The page of a node report; every line fits `width` columns, times are UTC."""
    now = unix(report["generated"]) or 0
    where = f" on {report['cluster']}" if report["cluster"] else ""
    lines = wrap(f"Node {report['node']}{where}: {report['status']} (times are UTC)", width)
    lines += _head(report, now, width)
    lines += section("OPEN FAULTS", _faults(report, now, width))
    lines += section(
        f"FINDINGS  {when(unix(report['from']))} to {when(unix(report['to']))}", _found(report, width)
    )
    lines += section("WHAT WAS DONE, newest first", _done(report, width))
    lines += section("JOBS", _jobs(report, width))
    lines += section("COVERAGE", _gaps(report, width))
    return "\n".join(lines).rstrip() + "\n"


def _head(report: dict[str, Any], now: int, width: int) -> list[str]:
    """Slurm's word, what comes next, the last run and the machine."""
    last, lines = report["last"], _slurm(report, now, width)
    if report["guard"]:
        at = when(unix(report["guard_at"]))
        lines += wrap(f"guard: {at} {report['guard']}", width, "  ", "    ")
    if report["next"]:
        lines += wrap(f"next: {report['next']}", width, "  ", "    ")
    lines += named_lines([one for one in report["incidents"] if one["state"] != "resolved"], width)
    seen = f"last run {when(unix(last['at']))} ({span(now - (unix(last['at']) or now))} ago), {last['hook']}"
    up = f", up {span(round(last['uptime_s'] * 1000))}" if last["uptime_s"] else ""
    lines += wrap(f"{seen}, {last['status']}{up}", width, "  ", "    ")
    machine = last["machine"]
    lines += wrap(f"machine {machine['machine_id'] or '-'}, serial {machine['serial'] or '-'}", width, "  ")
    if last["plan"]["state"] not in ("ok", ""):
        lines += wrap(f"plan: {last['plan']['problem'] or last['plan']['state']}", width, "  ", "    ")
    return lines


def _slurm(report: dict[str, Any], now: int, width: int) -> list[str]:
    """Slurm's state of the node; where it was not asked, our own drain as it stands on record."""
    said, drain = report["slurm"], report["drained"]
    if said is None and report["slurm_problem"] is None:
        return wrap("Slurm: no such node in any partition, so it is not counted", width, "  ", "    ")
    if said is not None:
        since = unix(said["since"])
        reason = f" {said['reason']}" if said["reason"] else ""
        by = f", by {said['by']} since {when(since)} ({span(now - since)})" if said["by"] and since else ""
        return wrap(f"Slurm: {said['state']}{reason}{by if reason else ''}", width, "  ", "    ")
    if drain is None:
        return []
    return wrap(f"on record: drained since {when(unix(drain['at']))}: {drain['reason']}", width, "  ", "    ")


def _faults(report: dict[str, Any], now: int, width: int) -> list[str]:
    lines: list[str] = []
    for one in report["open_faults"]:
        lines += fault_lines(one, now, width, "  ")
    if lines:
        return lines
    clean = report["last"]["status"] in CLEAN
    told = "None." if clean else "None that would take the node out of service; see the findings below."
    return wrap(told, width, "  ")


def _found(report: dict[str, Any], width: int) -> list[str]:
    """Findings, newest first; what repeats from run to run is one line with its count."""
    kinds: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for one in report["findings"]:
        # What no check could judge for one and the same reason is one line.
        what = one["message"] if one["status"] == UNKNOWN else one["fault"]
        kinds.setdefault((one["status"], one["device"], what), []).append(one)
    lines: list[str] = []
    for (status, device, _), some in list(kinds.items())[:_MOST_LINES]:
        faults = sorted({one["fault"] for one in some})
        runs = len({one["at"] for one in some})
        times = f", {runs} times since {when(unix(some[-1]['at']))}" if runs > 1 else ""
        head = f"{when(unix(some[0]['at']))} {status} {', '.join(faults)} {device}".rstrip()
        lines += wrap(f"{head}{times}: {some[0]['message']}", width, "  ", "    ")
    if len(kinds) > _MOST_LINES:
        lines.append(f"  and {len(kinds) - _MOST_LINES} more faults")
    return lines or ["  None."]


def _done(report: dict[str, Any], width: int) -> list[str]:
    lines: list[str] = []
    for one in report["actions"][:_MOST_LINES]:
        lines += wrap(f"{when(unix(one['at']))} {sentence(one)}", width, "  ", "    ")
    more = len(report["actions"]) - _MOST_LINES
    return [*lines, f"  and {more} more"] if more > 0 else lines or ["  Nothing."]


def _jobs(report: dict[str, Any], width: int) -> list[str]:
    rows = [
        (
            one["job_id"],
            one["user"] or "-",
            when(unix(one["opened"])) if one["opened"] else "start not on record",
            when(unix(one["closed"])) if one["closed"] else "no end on record",
            f"exit {one['exit_code']}" if one["exit_code"] else "",
        )
        for one in report["jobs"][:_MOST_LINES]
    ]
    lines = table(rows, width, most=(12, 14))
    more = len(report["jobs"]) - _MOST_LINES
    return [*lines, f"  and {more} more"] if more > 0 else lines or ["  None on record."]


def _gaps(report: dict[str, Any], width: int) -> list[str]:
    lines: list[str] = []
    for one in report["gaps"][-_MOST_LINES:]:
        start, end = unix(one["from"]), unix(one["to"])
        long = span((end or 0) - (start or 0))
        lines += wrap(f"{when(start)} for {long}: {one['why']}", width, "  ", "    ")
    silent = span(fleet.SILENCE_MS)
    return lines or wrap(f"Complete: never more than {silent} without a run.", width, "  ")
