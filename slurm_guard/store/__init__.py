"""Floor 5: the results database. Cold: SQLAlchemy Core on SQLite."""

from __future__ import annotations

from slurm_guard.store.engine import Store, open_store

__all__ = ["Store", "open_store"]
