"""The thread that brings incidents up to date, and finds nodes that are up in Slurm and send nothing."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from slurm_guard import correlate
from slurm_guard.collector.batch import CALL_S
from slurm_guard.core.errors import GuardError, SlurmError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from slurm_guard.collector.journal import Journal
    from slurm_guard.collector.pace import Pace
    from slurm_guard.slurm.gateway import Gateway, NodeState
    from slurm_guard.store import Store

EVERY_S = 30.0
_UP = frozenset({"idle", "mixed", "allocated"})
#: What excuses a node: no slurmd answers there, or it is on its way down or up.
_EXCUSES = frozenset({"NOT_RESPONDING", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "INVALID_REG"})


def up(nodes: Iterable[NodeState]) -> set[str]:
    """The names of nodes whose healthchecks must be heard."""
    return {
        node.name
        for node in nodes
        if node.base in _UP
        and node.flags.isdisjoint(_EXCUSES)
        and not node.unknown_flags
        and not any(flag.startswith("REBOOT") for flag in node.flags)
    }


class Watching:
    """Looks every half minute. `problem` says why the last look failed, empty if it did not."""

    def __init__(
        self,
        store: Store,
        door: Callable[[], Gateway],
        pace: Pace,
        journal: Journal,
        cluster: Callable[[], str],
        silent_after_s: float,
    ) -> None:
        self._store, self._door, self._pace, self._journal = store, door, pace, journal
        self._cluster, self._silent_after_ms = cluster, round(silent_after_s * 1000)
        self._end = threading.Event()
        self._since = time.monotonic()
        self.problem = ""
        self._thread = threading.Thread(target=self._run, name="watching", daemon=True)

    def start(self) -> None:
        """Look from now on; the first time in half a minute."""
        self._since = time.monotonic()
        self._thread.start()

    def close(self) -> None:
        """End after the look that is under way."""
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(EVERY_S):
            try:
                self.look()
                self.problem = ""
            except Exception as error:  # noqa: BLE001 - the next look may well succeed
                said = str(error) if isinstance(error, GuardError) else f"{type(error).__name__}: {error}"
                if said != self.problem:
                    self._journal.say(f"incidents are not up to date: {said}")
                self.problem = said

    def look(self) -> correlate.Changes:
        """One look. Raises StoreError."""
        watched = correlate.Watched.beside(self._store)
        # After its own start a collector has heard nobody yet: that is not the nodes' silence.
        if (time.monotonic() - self._since) * 1000 >= self._silent_after_ms:
            watched = replace(
                watched, up=self._up(), cluster=self._cluster(), silent_after_ms=self._silent_after_ms
            )
        return correlate.run(self._store, round(time.time() * 1000), watched)

    def _up(self) -> set[str] | None:
        self._pace.take()
        try:
            return up(self._door().nodes(None, CALL_S))
        except SlurmError:
            return None
