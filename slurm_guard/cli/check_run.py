"""Run checks on this host and show what they found; the engine does the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slurm_guard.cli import nagios, output
from slurm_guard.cli.wrapped import wrap
from slurm_guard.core.check import lacks_expectation, load
from slurm_guard.core.context import Context
from slurm_guard.core.outcome import PASS, SKIP, UNKNOWN
from slurm_guard.engine import record as records
from slurm_guard.engine import run_once, spool

if TYPE_CHECKING:
    from slurm_guard.cli.host import Host
    from slurm_guard.core.outcome import Finding
    from slurm_guard.engine.run_once import RunOutcome


def run(host: Host, hook: str, names: list[str] | None, *, record: bool) -> RunOutcome:
    """Run checks once; with `record`, leave a run record (hook `cli`) in the spool.

    Raises SetupError if the record cannot be written.
    """
    context = Context(hook, {"SLURMD_NODENAME": host.node})
    outcome = run_once.run_checks(host.places, host.plan, context, only=names)
    if record:
        _write_record(host, context, outcome)
    return outcome


def _write_record(host: Host, context: Context, outcome: RunOutcome) -> None:
    from slurm_guard.core.errors import SetupError

    content = records.of_run(outcome, host.places, host.plan, context, [], [])
    content["hook"] = "cli"
    try:
        spool.write(host.places, content, host.plan.spool)
    except OSError as error:
        raise SetupError(
            f"{host.places.spool}: no record written: {error.strerror}; run as root, or without --record"
        ) from error


def show(host: Host, outcome: RunOutcome, hook: str, form: str) -> int:
    """Print a run as `text`, `verbose` text, `json` or `nagios`; the exit code."""
    findings = [one for one in outcome.findings if one.status not in (PASS, SKIP)]
    passed = [one.check for one in outcome.results if one.status == PASS]
    if form == "nagios":
        code, text = nagios.line(outcome.status, findings, len(passed), outcome.expect.values)
        print(text)
        return code
    if form == "json":
        output.emit_json("check_run", _document(host, outcome, hook))
    else:
        _print_text(host, outcome, findings, passed, verbose=form == "verbose")
    return 0 if outcome.status in (PASS, SKIP) else 1


def _document(host: Host, outcome: RunOutcome, hook: str) -> dict[str, Any]:
    return {
        "run_id": outcome.run_id,
        "node": host.node,
        "hook": hook,
        "status": outcome.status,
        "elapsed_ms": round(outcome.elapsed_ms, 1),
        "plan": {"hash": host.plan.hash, "state": host.plan.state, "problem": host.plan.problem},
        "passed": [one.check for one in outcome.results if one.status == PASS],
        "skipped": [one.check for one in outcome.results if one.status == SKIP],
        "skipped_because": _skipped(outcome, host),
        "results": [one.as_dict() for one in outcome.results if one.status not in (PASS, SKIP)],
        "values": outcome.expect.values,
        "problems": outcome.problems,
    }


def _skipped(outcome: RunOutcome, host: Host) -> dict[str, str]:
    """The checks that were skipped, each with its reason."""
    found = {}
    for one in outcome.results:
        if one.status != SKIP:
            continue
        said = dict.fromkeys(f.message for f in one.findings if f.message)
        lacking = lacks_expectation(load(one.check), host.plan)
        where = f"class {host.plan.node_class}" if host.plan.node_class else "no class"
        nothing = (
            f"nothing expected in {where} (`{load(one.check).expects}`)" if lacking else "nothing to judge"
        )
        found[one.check] = "; ".join(said) or nothing
    return found


def _print_text(
    host: Host, outcome: RunOutcome, findings: list[Finding], passed: list[str], *, verbose: bool
) -> None:
    skipped = _skipped(outcome, host)
    if findings:
        rows = [(one.status, _name(one), one.tier, one.message) for one in findings]
        output.table(("status", "fault", "tier", "what was seen"), rows)
        for remedy in _remedies(findings):
            output.note("\n".join(wrap(f"Remedy for {remedy}", rest="    ")))
    if verbose and passed:
        print("\n".join(wrap(f"passed: {', '.join(passed)}", rest="    ")))
    for name, why in skipped.items():
        print("\n".join(wrap(f"skipped: {name}: {output.printable(why)}", rest="    ")))
    counts = f"{len(passed)} passed, {len(skipped)} skipped, {output.count(len(findings), 'finding')}"
    print(f"{host.node}: {outcome.status}; {counts}; {outcome.elapsed_ms:.0f} ms")
    notes = (host.places.node_problem, host.plan_note(), host.class_note())
    for problem in (*outcome.problems, *notes):
        if problem:
            output.warn(problem)


def _remedies(findings: list[Finding]) -> dict[str, None]:
    """Each once; none for what could not be judged, since nothing is known to be broken there."""
    told = (one for one in findings if one.remedy and one.status != UNKNOWN)
    return dict.fromkeys(f"{one.fault}: {one.remedy}" for one in told)


def _name(finding: Finding) -> str:
    return f"{finding.fault} {finding.device or ''}".strip()
