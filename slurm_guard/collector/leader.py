"""Which of several collectors acts: the one that has the lease in the database they share."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

from slurm_guard.store import leases, orders

if TYPE_CHECKING:
    from slurm_guard.store import Store

NAME = "collector acts"
#: A dead leader's lease runs out after so long.
LEASE_S = 20.0
#: Nothing is written to Slurm when less than this is left: a write takes its time.
MARGIN_S = 8.0


class Leader:
    """One collector's claim to act. `holder` names it in the database."""

    def __init__(self, store: Store) -> None:
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"
        self._store = store
        self._until = float("-inf")

    def take(self) -> bool:
        """Take the lease or make it last longer; False while another collector acts. Raises StoreError."""
        began, had = time.monotonic(), self._until
        taken = leases.take(self._store, NAME, self.holder, LEASE_S)
        self._until = began + LEASE_S if taken else float("-inf")
        if taken and had < began:  # whoever acted before does so no more: what it had claimed is free
            orders.free(self._store, self.holder, round(time.time() * 1000))
        return taken

    def is_sure(self) -> bool:
        """True while no other can have the lease, even if this process was stopped for a while."""
        return time.monotonic() < self._until - MARGIN_S

    def give_up(self) -> None:
        """Let another collector act from now on. Raises StoreError."""
        self._until = float("-inf")
        leases.give_up(self._store, NAME, self.holder)
