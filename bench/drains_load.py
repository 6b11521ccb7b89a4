"""Nodes that all ask for their drain at once, with the real shipper: a process of its own."""

from __future__ import annotations

import json
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from bench import records
from minicluster import ghosts
from slurm_guard.core import plan as plans
from slurm_guard.core import reason as reasons
from slurm_guard.core.paths import Places
from slurm_guard.engine import clock, destination, requests, ship, spool

THREADS = 16
FAULT = "gpu_count.lost"


def ask(folder: Path, bundle: Path, index: int, name: str, how: str) -> int:
    """One node: its request on disk, its record in the spool, and a shipment; 1 if it was taken over."""
    places, plan = Places(str(folder / name)), plans.load(str(bundle), name)
    boot = Path(places.below("proc/sys/kernel/random/boot_id"))
    boot.parent.mkdir(parents=True)
    boot.write_text(f"boot of {name}")
    record = records.record(random.Random(index), name, "healthcheck", datetime.now(UTC))
    device = f"gpu{index % 8}" if how == "many" else "gpu3"
    cause = {"fault": FAULT, "device": device, "scope": "device", "reason": reasons.build(FAULT, device)}
    requests.put(
        places, requests.make("drain", boot_id=clock.boot_id(places), run_id=record["run_id"], **cause)
    )
    record.update(
        cluster=plan.cluster,
        machine={"boot_id": clock.boot_id(places), "machine_id": name, "serial": ""},
        actions=[{"action": "drain", "outcome": "queued", **cause}],
        decisions=[{"action": "drain", "mode": "enforce", **cause}],
        others=[{"job_id": 1000 + index, "uid": 4000 + index}] if how == "many" else [],
    )
    spool.write(places, record, plan.spool)
    to = destination.destination(places, plan)
    assert to is not None
    return len(ship.ship(places, plan, to).taken)


def main() -> int:
    """Arguments: folder for nodes, the plan, how many, `one` or `many` causes. Prints what was taken over."""
    folder, bundle, count, how = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    names = ghosts.names(count)
    with ThreadPoolExecutor(THREADS) as pool:
        taken = list(pool.map(lambda one: ask(folder, bundle, one[0], one[1], how), enumerate(names)))
    print(json.dumps({"taken": sum(taken)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
