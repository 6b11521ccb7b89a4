"""The results on this host: the store, with the local spool ingested first, as far as this user may."""

from __future__ import annotations

import os
import tempfile
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_guard.cli import output
from slurm_guard.core.errors import SetupError, StoreError
from slurm_guard.engine.destination import destination
from slurm_guard.ingest import ingest_folder
from slurm_guard.store import open_store

if TYPE_CHECKING:
    from slurm_guard.cli.host import Host
    from slurm_guard.store import Store


def open_results(host: Host) -> Store:
    """The open store of this host; what this user may not do is said on stderr. None is made for a question.

    Raises SetupError if this user cannot read results here at all, StoreError if the store is unusable.
    """
    folder = Path(host.places.var)
    if host.places.node_problem:
        output.warn(host.places.node_problem)
    _check_readable(folder)
    if not Path(host.places.database).exists() and not _waiting(Path(host.places.spool)):
        return _nothing(host)
    if folder.exists() and not os.access(folder, os.W_OK):
        output.warn(f"{host.places.spool}: not ingested, only root may; newer runs may be missing")
        return open_store(host.places.database, readonly=True)
    store = open_store(host.places.database)
    try:
        _ingest(store, host)
        bring_up_to_date(store)
    except (StoreError, SetupError) as error:
        output.warn(f"the local spool was not ingested: {error}")
    return store


def bring_up_to_date(store: Store) -> None:
    """Make incidents of what is new in the store. Raises StoreError."""
    from slurm_guard import correlate

    correlate.run(store, round(time.time() * 1000))


def _waiting(spool: Path) -> bool:
    """Is there a record to ingest? Also yes where that cannot be told, so that the reason is."""
    try:
        return any(path.name.endswith(".json") for path in spool.iterdir())
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _nothing(host: Host) -> Store:
    """An empty store that is gone with this process: a question leaves nothing behind on a bare host."""
    spool = host.places.spool
    waits = "waits" if Path(spool).is_dir() else "was ever left"
    output.warn(
        f"nothing is on record on this host yet: no record {waits} in {spool}; hooks leave them on their "
        "nodes, and a collector, `sguard collect` or `sguard ingest` brings them together"
    )
    folder = tempfile.TemporaryDirectory(prefix="sguard-")
    store = open_store(Path(folder.name) / "store.sqlite")
    weakref.finalize(store, folder.cleanup)
    return store


def _check_readable(folder: Path) -> None:
    """Say which way is missing: a parent that may not be entered hides whether the folder is there at all."""
    for place in (*reversed(folder.parents), folder):
        if not place.is_dir():
            break
        if not os.access(place, os.X_OK):
            who = place.owner()
            raise SetupError(
                f"{place}: only {who} may read results; run `sguard` as {who} (users: `sguard job` asks the "
                "collector, see docs/users.md)"
            )
    else:
        return
    parent = next(place for place in folder.parents if place.is_dir())
    if not os.access(parent, os.W_OK):
        raise SetupError(
            f"{folder}: no results on this host; run as root, or where hooks or `sguard ingest` ran"
        )


def _ingest(store: Store, host: Host) -> None:
    # What the collector has not acknowledged yet is still to be sent: it is read here and stays.
    done = ingest_folder(store, host.places.spool, remove=destination(host.places, host.plan) is None)
    if done.set_aside:
        path, reason = done.set_aside[0]
        files = output.count(len(done.set_aside), "file")
        output.warn(f"set aside, as not being records: {files}, e.g. {path}: {reason}")
