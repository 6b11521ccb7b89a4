"""`sguard ingest`: take run records of one or many nodes into this host's store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slurm_guard.cli import options, output
from slurm_guard.cli.host import Host
from slurm_guard.core.errors import SetupError

if TYPE_CHECKING:
    from slurm_guard.ingest import IngestReport


def ingest(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Spools, or folders that hold spools of many nodes."),
    ],
    keep: Annotated[bool, typer.Option("--keep", help="Leave the files where they are.")] = False,
    root: options.Root = "/",
    as_json: options.Json = False,
) -> int:
    """Take run records of one or many nodes into the store.

    A spool is a folder `spool`, or DIR itself, with files named as run records are; no other file is touched.
    Records are known by their run id: ingesting one twice changes nothing. Files of a spool that are no
    records are set aside, never lost. Ends with 1 if there were any, or if a folder could not be read.
    """
    from slurm_guard.cli.results import bring_up_to_date
    from slurm_guard.ingest import IngestReport, ingest_tree
    from slurm_guard.store import open_store

    host = Host(root)
    for folder in folders:
        if not folder.is_dir():
            raise SetupError(f"{folder}: no such folder; expected a spool or a folder of spools")
    total = IngestReport()
    with open_store(host.places.database) as store:
        for folder in folders:
            total.add(ingest_tree(store, folder, remove=not keep))
        bring_up_to_date(store)
    _show(total, host, as_json)
    return 1 if total.set_aside or total.unread else 0


def _show(total: "IngestReport", host: Host, as_json: bool) -> None:
    aside = [{"file": path, "reason": reason} for path, reason in total.set_aside]
    unread = [{"folder": path, "reason": reason} for path, reason in total.unread]
    if as_json:
        counts = {"ingested": total.ingested, "duplicates": total.duplicates, "rows": total.rows}
        told = {"set_aside": aside, "without_spool": total.without_spool, "unread": unread}
        output.emit_json("ingest", {"store": host.places.database, **counts, **told})
        return
    records = output.count(total.ingested, "record")
    print(f"{records} ingested, {total.duplicates} known already, {len(aside)} set aside")
    for one in aside:
        output.warn(f"set aside: {one['file']}: {one['reason']}")
    for folder in total.without_spool:
        output.warn(f"{folder}: no spool in it: no folder `spool`, and no file named as a run record is")
    if unread:
        more = f", and {len(unread) - 1} more" if len(unread) > 1 else ""
        output.warn(f"not searched: {unread[0]['folder']}: {unread[0]['reason']}{more}")
