"""The SQL texts of the writer, made once from the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_guard.store import schema

if TYPE_CHECKING:
    from sqlalchemy import Table


def _columns(table: Table) -> list[str]:
    return [f'"{column.name}"' for column in table.columns]


def _insert(table: Table, verb: str = "INSERT") -> str:
    columns = _columns(table)
    return f"{verb} INTO {table.name} ({','.join(columns)}) VALUES ({','.join('?' * len(columns))})"


def _merge(first: str, second: str) -> str:
    """An allocation that meets the row which the other hook left: `first` counts where both say something."""
    key = ("job_id", "node_id", "opened")
    sets = []
    for column in schema.allocations.columns:
        name = column.name
        if name in ("restart_sure", "opened_sure"):
            sets.append(f"{name}=max(excluded.{name}, allocations.{name})")
        elif name != "id" and name not in key:
            sets.append(f'"{name}"=coalesce({first}."{name}", {second}."{name}")')
    return f"{_insert(schema.allocations)} ON CONFLICT ({','.join(key)}) DO UPDATE SET {','.join(sets)}"


def _name(table: Table) -> tuple[str, str]:
    same = " AND ".join(f"{column}=?" for column in _columns(table)[1:])
    find = f"SELECT id FROM {table.name} WHERE {same}"  # noqa: S608 - names of the schema only
    return find, _insert(table)


#: How the rows of each list of `Rows` are inserted. A prolog's word counts more than an epilog's, whichever
#: is ingested first.
INSERTS = {
    "runs": _insert(schema.runs),
    "results": _insert(schema.results),
    "findings": _insert(schema.findings),
    "actions": _insert(schema.actions),
    "node_samples": _insert(schema.node_samples),
    "opened": _merge("excluded", "allocations"),
    "closed": _merge("allocations", "excluded"),
}

#: By table of names: how to find the number of one, how to make one.
NAMES = {
    table.name: _name(table)
    for table in (schema.nodes, schema.boots, schema.guards, schema.check_lists, schema.series)
}

NOTE_ASIDE = _insert(schema.set_aside, "INSERT OR IGNORE")
