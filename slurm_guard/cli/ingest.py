"""`sguard ingest`: take run records of one or many nodes into this host's store."""

from pathlib import Path
from typing import Annotated

import typer

from slurm_guard.cli import options, output
from slurm_guard.cli.host import Host
from slurm_guard.core.errors import SetupError


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

    Records are known by their run id: ingesting one twice changes nothing. Files that are no records are set
    aside, never lost; their number makes the exit code 1.
    """
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
    _show(total, host, as_json)
    return 1 if total.set_aside else 0


def _show(total: "IngestReport", host: Host, as_json: bool) -> None:  # type: ignore[name-defined]  # noqa: F821
    aside = [{"file": path, "reason": reason} for path, reason in total.set_aside]
    if as_json:
        counts = {"ingested": total.ingested, "duplicates": total.duplicates, "rows": total.rows}
        output.emit_json("ingest", {"store": host.places.database, **counts, "set_aside": aside})
        return
    print(f"{total.ingested} records ingested, {total.duplicates} known already, {len(aside)} set aside")
    for one in aside:
        output.warn(f"set aside: {one['file']}: {one['reason']}")
