"""One node and its collector on loopback, for the tests of shipping."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

from slurm_guard.core import plan as plans
from slurm_guard.core.paths import Places
from slurm_guard.core.plan import Plan
from slurm_guard.engine import ship, spool
from slurm_guard.engine.destination import Destination
from slurm_guard.engine.ship import Shipped
from tests.unit.engine.collector import Collector, token_file

NODE = "n1"
BOOT = "5e0c1b5e-0000-4000-8000-00000000000b"


class Site:
    """One node and its collector."""

    def __init__(self, root: Path, collector: Collector) -> None:
        self.places, self.collector = Places(str(root)), collector
        self.to = Destination(collector.url, token_file=str(token_file(root)))
        boot = root / "proc/sys/kernel/random"
        boot.mkdir(parents=True)
        (boot / "boot_id").write_text(BOOT)

    @property
    def plan(self) -> Plan:
        return plans.load(self.places.plan, NODE)

    def record(self, **fields: Any) -> str:
        """One record more in the spool; its run id."""
        run_id = uuid.uuid4().hex
        found = {"schema": "1.0", "kind": "run", "run_id": run_id, "node": NODE, "hook": "epilog", **fields}
        spool.write(self.places, found, self.plan.spool)
        return run_id

    def records(self, count: int) -> list[str]:
        return [self.record() for _ in range(count)]

    def ship(self, seconds: float = ship.SHIPMENT_S) -> Shipped:
        found = ship.ship(self.places, self.plan, self.to, seconds)
        assert self.collector.problems == []
        return found

    @property
    def spooled(self) -> list[str]:
        return [os.path.basename(path)[:-5].rpartition("-")[2] for path in spool.paths(self.places)]

    @property
    def aside(self) -> dict[str, str]:
        """What was set aside: run id to reason."""
        folder = Path(self.places.var) / "set-aside"
        found = folder.glob("*.json") if folder.exists() else []
        return {path.stem.rpartition("-")[2]: Path(f"{path}.why").read_text().strip() for path in found}
