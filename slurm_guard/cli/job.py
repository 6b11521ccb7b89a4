"""`sguard job`: the report on one job."""

import os
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slurm_guard.cli import options, output
from slurm_guard.cli.host import Host
from slurm_guard.core.errors import CollectorError, MungeError, NotFoundError

if TYPE_CHECKING:
    from slurm_guard.cli.job_lookup import Found
    from slurm_guard.engine.destination import Destination

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
    missing, the report says so. Where the results cannot be read, as by users, the collector is asked: it
    shows users their own jobs, root and its admins all. Ends with 1 if a problem is on record.
    """
    if _JOB_ID.fullmatch(job_id) is None:
        raise typer.BadParameter(
            f"{output.printable(job_id)[:40]!r}; expected 12, 12_3 or 12+1", param_hint="JOBID"
        )
    from slurm_guard.cli import job_remote

    host = Host(root)
    to = job_remote.way(host)
    if to is not None and no_slurm and os.geteuid() != 0:
        raise typer.BadParameter("the collector asks Slurm by itself", param_hint="--no-slurm")
    if to is None or no_slurm:
        return _from_here(host, job_id, cluster, no_slurm, as_json)
    try:
        return _from_collector(to, job_id, cluster, as_json)
    except (CollectorError, MungeError, NotFoundError) as error:
        if os.geteuid() != 0:
            raise
        output.warn(f"{error}; what lies on this host follows")
    return _from_here(host, job_id, cluster, no_slurm, as_json)


def _from_here(host: Host, job_id: str, cluster: str | None, no_slurm: bool, as_json: bool) -> int:
    from slurm_guard.cli import fleet, job_lookup
    from slurm_guard.cli.results import open_results
    from slurm_guard.report import job as report

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


def _from_collector(to: "Destination", job_id: str, cluster: str | None, as_json: bool) -> int:
    from slurm_guard.cli import job_remote
    from slurm_guard.report import job as report

    built = job_remote.ask(to, job_id)
    if cluster is not None and built.get("cluster") != cluster:
        served = output.printable(str(built.get("cluster")))
        raise NotFoundError(f"-M {cluster}: the collector's job {job_id} is of cluster {served}")
    page = "" if as_json else job_remote.shown(report.text, built)
    healthy = job_remote.shown(_healthy, built)
    if as_json:
        output.emit_json("job", built)
    else:
        print(page.rstrip("\n"))
    return 0 if healthy else 1


def _print(text: str, found: "Found", no_slurm: bool) -> None:
    print(text.rstrip("\n"))
    if found.problem and not no_slurm:
        output.warn(f"without Slurm's word: {found.problem}")


def _healthy(built: dict[str, Any]) -> bool:
    """True if every run of the job is on record and none had anything wrong."""
    return bool(built["runs"]) and all(run["verdict"]["blame"] == "none" for run in built["runs"])
