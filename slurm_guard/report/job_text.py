"""The job report as text: at most 80 columns, plain, in UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slurm_guard.report.actions import sentence
from slurm_guard.report.incidents import named_lines
from slurm_guard.report.job_nodes import fold, node_table
from slurm_guard.report.layout import clean, clock, columns_of, cut, section, span, table, unix, when, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable

WIDTH = 80
_SAFE = {
    "yes": "yes",
    "no": "no",
    "exclude": "yes, on other nodes",
    "requeued": "not needed",
    "held": "not needed, but release it",
    "unknown": "not known",
}
_WHAT = {"all": "all runs", "between": "health checks"}
_MOST_OTHERS = 10
_MOST_LINES = 12


def text(report: dict[str, Any], width: int = WIDTH) -> str:
    """The page of a report; every line fits `width` columns, times are UTC."""
    lines = _title(report, width)
    if not report["runs"]:
        lines += _no_runs(report, width)
    for position, run in enumerate(report["runs"], 1):
        if len(report["runs"]) > 1:
            lines += ["", _run_title(run, position, len(report["runs"]), width)]
        lines += _run(run, width)
    lines += _later(report.get("later"), width)
    return "\n".join(lines).rstrip() + "\n"


def _title(report: dict[str, Any], width: int) -> list[str]:
    name = f"Job {report['job_id']}"
    if report["array_job_id"] is not None and report["array_task_id"] is not None:
        name += f" (array {report['array_job_id']}_{report['array_task_id']})"
    if report["het_job_id"] is not None:
        name += f" (part of {report['het_job_id']})"
    if report["cluster"]:
        name += f" on {clean(report['cluster'])}"
    name += " (times are UTC)"
    user = report["user"] or "-"
    user += f" ({report['uid']})" if report["uid"] is not None else ""
    pairs = [
        ("user", user),
        ("partition", report["partition"]),
        ("account", report["account"]),
        ("name", report["name"]),
    ]
    return [*wrap(name, width), *_pairs(pairs, width)]


def _pairs(pairs: Iterable[tuple[str, Any]], width: int) -> list[str]:
    """`key value` pairs, as many to a line as fit; empty ones are left out."""
    lines: list[str] = []
    for key, value in pairs:
        if not value:
            continue
        part = f"{key} {clean(value)}"
        if lines and columns_of(lines[-1]) + columns_of(part) + 3 <= width:
            lines[-1] += f"   {part}"
        else:
            lines += wrap(part, width, "  ", "    ") if columns_of(part) > width - 2 else [f"  {part}"]
    return lines


def _no_runs(report: dict[str, Any], width: int) -> list[str]:
    said = f"Slurm calls it {clean(report['slurm_state'])}"
    nodes = f" on {clean(report['slurm_nodes'])}" if report["slurm_nodes"] else ""
    why = "no run of a hook is on record, so nothing can be said of its nodes"
    step = "Run `sguard ingest DIR` on the nodes' spools; `sguard doctor` says whether the hooks run."
    return [
        *section("VERDICT: unknown, low confidence", wrap(f"{said}{nodes}; {why}.", width, "  ")),
        *_labelled("next step", step, width),
    ]


def _later(run: dict[str, Any] | None, width: int) -> list[str]:
    """What Slurm says of a run that left no record yet."""
    if run is None:
        return []
    restart = "" if run["restart"] is None else f", restart {run['restart']},"
    said = f"Slurm calls the job's last run{restart} {run['state'] or 'unknown'}"
    said += f" ({run['reason']})" if run["reason"] not in (None, "None") else ""
    return section("NOW", wrap(f"{said}; no run of a hook is on record for it yet.", width, "  "))


def _run_title(run: dict[str, Any], position: int, of: int, width: int) -> str:
    restart = "" if run["restart"] is None else f", restart {run['restart']}"
    head = f"--- Run {position} of {of}{restart} "
    return head + "-" * max(0, width - columns_of(head))


def _run(run: dict[str, Any], width: int) -> list[str]:
    return [
        *_header(run, width),
        *_verdict(run, width),
        *named_lines(run.get("incidents", ()), width),
        *section("NODES  prolog -> during -> epilog", node_table(run, width)),
        *_others(run, width),
        *section("WHAT WAS DONE", _actions(run, width)),
        *section("COVERAGE", _coverage(run["coverage"], width)),
    ]


def _header(run: dict[str, Any], width: int) -> list[str]:
    elapsed = None if run["elapsed_s"] is None else span(round(run["elapsed_s"] * 1000))
    count = len(run["nodes"])
    nodes = f"{fold(run['nodes'])} ({count})" if count > 1 else fold(run["nodes"])
    lines = _pairs(
        [("nodes", nodes), ("state", _state(run)), ("exit", _exit(run)), ("reason", run["reason"])], width
    )
    submitted, started, ended = (
        when(unix(run[k])) if run[k] else None for k in ("submitted", "started", "ended")
    )
    lines += _pairs([("submitted", submitted or "not known")], width)
    lines += _pairs([("started", started), ("ended", ended or "not on record"), ("took", elapsed)], width)
    for said in run["unknown"]:
        lines += wrap(cut(clean(said), 3 * width), width, "  not known: ", "    ")
    return lines


def _state(run: dict[str, Any]) -> str:
    """Slurm's word, and the prolog's where it refused the job."""
    if not run["refused_by"]:
        return run["state"] or "not known"
    said = f"REFUSED by {fold(run['refused_by'])}" + (", requeued" if run["requeued"] else "")
    return said if run["state"] in (None, "REQUEUED") else f"{said}; Slurm: {run['state']}"


def _exit(run: dict[str, Any]) -> str:
    if run["exit_code"]:
        return f"{run['exit_code']} (from the epilog)" if run["exit_from"] == "epilog" else run["exit_code"]
    return "none, it did not start" if run["refused_by"] else "not known"


def _verdict(run: dict[str, Any], width: int) -> list[str]:
    verdict = run["verdict"]
    blame = "nothing was wrong" if verdict["blame"] == "none" else f"blame {verdict['blame']}"
    lines = ["", f"VERDICT: {blame}, {verdict['confidence']} confidence"]
    lines += wrap(f"{verdict['what']}.", width, "  ")
    for reason in verdict["why"]:
        lines += wrap(reason, width, "  - ")
    safe = verdict["resubmit"]
    lines += _labelled("resubmit", f"{_SAFE.get(safe['safe'], safe['safe'])}: {safe['why']}", width)
    return lines + _labelled("next step", verdict["next_step"], width)


def _labelled(label: str, value: str, width: int) -> list[str]:
    return wrap(value, width, f"  {label}: ", "      ")


def _others(run: dict[str, Any], width: int) -> list[str]:
    node = run["verdict"]["node"]
    if not node:
        return []
    others = run["others"]
    title = cut(f"OTHER JOBS ON {clean(node)}", width)
    if not others:
        return section(
            title, wrap("none at the same time, and none that failed there within a day", width, "  ")
        )
    rows = [
        (
            one["job_id"],
            one["user"] or "-",
            f"{when(unix(one['opened']))[5:16] if one['opened'] else '?'} to {_until(one)}",
            f"exit {one['exit_code']}" if one["exit_code"] else "no end on record",
            "at the same time" if one["at_the_same_time"] else "",
        )
        for one in others[:_MOST_OTHERS]
    ]
    lines = table(rows, width, most=(12, 16))
    if len(others) > _MOST_OTHERS:
        lines.append(f"  and {len(others) - _MOST_OTHERS} more")
    return section(title, lines)


def _until(one: dict[str, Any]) -> str:
    return when(unix(one["closed"]))[5:16] if one["closed"] else "?"


def _actions(run: dict[str, Any], width: int) -> list[str]:
    lines: list[str] = []
    day = unix(run["started"])
    left_out = len(run["actions"]) - _MOST_LINES
    if left_out > 0:
        lines.append(f"  {left_out} earlier events are in --json")
    for one in run["actions"][-_MOST_LINES:]:
        lines += wrap(f"{clock(unix(one['at']), day)} {sentence(one)}", width, "  ", "    ")
    return lines or wrap("Nothing: no drain, refusal or resume on the job's nodes.", width, "  ")


def _coverage(coverage: dict[str, Any], width: int) -> list[str]:
    if coverage["complete"]:
        return wrap("Complete: every run of every node is on record and saw what it should.", width, "  ")
    waits = [one for one in coverage["partial"] if one["what"] == "epilog"]
    lines = [] if coverage["missing"] or waits else ["  Every run of every node is on record."]
    rows = [
        ("missing", one, f"{_WHAT.get(one['what'], one['what'])}: {one['why']}")
        for one in coverage["missing"]
    ]
    rows += [("not on record yet", one, f"epilog: {one['why']}") for one in waits]
    rows += [("partly seen", one, _partly(one)) for one in coverage["partial"] if one not in waits]
    folded: dict[tuple[str, str], list[str]] = {}
    for head, one, said in rows:
        folded.setdefault((head, said), []).append(one["node"])
    for (head, said), names in folded.items():
        lines += wrap(f"{head}: {fold(names)} {said}", width, "  ", "    ")
    return lines


def _partly(one: dict[str, Any]) -> str:
    """What some runs of a node could not see: which checks could not judge what, or a source, and why."""
    hooks = ", ".join(one["hooks"])
    if one["checks"]:
        devices = f" {', '.join(one['devices'])}" if one["devices"] else ""
        return f"{hooks}: {', '.join(one['checks'])} could not judge{devices}: {one['why']}"
    return f"{hooks} {_WHAT.get(one['what'], one['what'])}".strip() + f": {one['why']}"
