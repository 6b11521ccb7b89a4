"""Short looks at a store and a spool for the tests of ingest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sqlalchemy import select

from slurm_guard.store import Store, schema
from tests.unit.store.factory import run


def kept(store: Store, column: Any = schema.runs.c.run_id) -> list[Any]:
    with store.read() as connection:
        return list(connection.scalars(select(column)))


def aside(store: Store) -> dict[str, str]:
    with store.read() as connection:
        table = schema.set_aside
        return {row.name: row.reason for row in connection.execute(select(table.c.name, table.c.reason))}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def some(count: int, node: str = "gx1") -> list[dict[str, Any]]:
    return [run("healthcheck", node, number * 5) for number in range(count)]


def named(folder: Path, *records: dict[str, Any]) -> Path:
    """A spool whose files are named as the guard names them."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, record in enumerate(records):
        (folder / f"r-{number:016d}-{record['run_id']}.json").write_text(json.dumps(record))
    return folder
