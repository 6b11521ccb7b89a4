"""`sguard job`: the report on one job."""

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slurm_guard.cli import options, output
from slurm_guard.cli.host import Host

if TYPE_CHECKING:
    from slurm_guard.cli.job_lookup import Found

_JOB_ID = re.compile(r"[0-9]{1,10}(?:_[0-9]{1,10}|\+[0-9]{1,5})?")


def job(
    job_id: Annotated[
        str, typer.Argument(metavar="JOBID", help="A job (12), array task (12_3) or het component (12+1).")
    ],
    cluster: options.Cluster = None,
    no_slurm: Annotated[
        bool, typer.Option("--no-slurm", help="Use the records alone, do not ask Slurm.")
    ] = False,
    root: options.Root = "/",
    as_json: options.Json = False,
) -> int:
    """Say what was wrong with a job, whose fault it was and what to do.

    Everything comes from the records of this host's store and from Slurm's accounting; where one of them is
    missing, the report says so. For now only root may read results: users need an admin for a report. Ends
    with 1 if a problem is on record.
    """
    if _JOB_ID.fullmatch(job_id) is None:
        raise typer.BadParameter(
            f"{output.printable(job_id)[:40]!r}; expected 12, 12_3 or 12+1", param_hint="JOBID"
        )
    from slurm_guard.cli import fleet, job_lookup
    from slurm_guard.cli.results import open_results
    from slurm_guard.report import job as report

    host = Host(root)
    found = job_lookup.ask(host, job_id, wanted=not no_slurm)
    with open_results(host) as store:
        fleet.ensure_cluster(store, cluster, host)
        number = job_lookup.number(store, job_id, found, cluster)
        built = report.build(store, number, found.accounting, cluster)
    if as_json:
        output.emit_json("job", built)
    else:
        _print(report.text(built), found, no_slurm)
    return 0 if _healthy(built) else 1


def _print(text: str, found: "Found", no_slurm: bool) -> None:
    print(text.rstrip("\n"))
    if found.problem and not no_slurm:
        output.warn(f"without Slurm's word: {found.problem}")


def _healthy(built: dict[str, Any]) -> bool:
    """True if every run of the job is on record and none had anything wrong."""
    return bool(built["runs"]) and all(run["verdict"]["blame"] == "none" for run in built["runs"])
