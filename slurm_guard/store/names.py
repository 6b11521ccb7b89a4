"""The numbers of what the store keeps once: nodes, boots, guards, lists of checks, series."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slurm_guard.store.statements import NAMES

if TYPE_CHECKING:
    import sqlite3

_MOST = 200_000


class NameTable:
    """Numbers, remembered; made in the current transaction of `connection` where they are new."""

    connection: sqlite3.Connection

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, tuple[Any, ...]], int] = {}

    def number(self, table: str, key: tuple[Any, ...]) -> int:
        """The number of the row of `table` with these values in its columns after `id`."""
        known = self._numbers.get((table, key))
        return self._look_up(table, key) if known is None else known

    def _look_up(self, table: str, key: tuple[Any, ...]) -> int:
        find, make = NAMES[table]
        found = self.connection.execute(find, key).fetchone()
        number: Any = found[0] if found else self.connection.execute(make, (None, *key)).lastrowid
        if len(self._numbers) >= _MOST:
            self._numbers.clear()
        self._numbers[table, key] = int(number)
        return int(number)
