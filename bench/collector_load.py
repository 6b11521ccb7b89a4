"""Simulated nodes that send one record each at a steady rate, with the real shipper: a process of its own."""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import records
from slurm_guard.core import plan as plans
from slurm_guard.core.paths import Places
from slurm_guard.engine import destination, ship, spool

THREADS = 32


@dataclass
class Tally:
    """What the nodes saw: seconds per shipment, how late it began, and why some failed."""

    seconds: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    acknowledged: int = 0
    problems: list[str] = field(default_factory=list)


def node_name(index: int) -> str:
    """`n00001` and so on."""
    return f"n{index + 1:05d}"


def send(folder: Path, bundle: Path, index: int, due: float, tally: Tally) -> None:
    """One node's minute: a record in its spool, then a shipment, not before `due`."""
    name = node_name(index)
    places = Places(str(folder / name))
    record = records.record(random.Random(index), name, "healthcheck", datetime.now(UTC))
    plan = plans.load(str(bundle), name)
    spool.write(places, {**record, "cluster": plan.cluster}, plan.spool)
    to = destination.destination(places, plan)
    assert to is not None
    time.sleep(max(0.0, due - time.monotonic()))
    started = time.monotonic()
    shipped = ship.ship(places, plan, to)
    tally.seconds.append(time.monotonic() - started)
    tally.late.append(started - due)
    tally.acknowledged += shipped.acknowledged
    if shipped.why or shipped.refused:
        tally.problems.append(shipped.why or shipped.refused[0][1])


def main() -> int:
    """Arguments: folder for nodes, the plan, requests a second, nodes. Prints what was seen as JSON."""
    folder, bundle = Path(sys.argv[1]), Path(sys.argv[2])
    rate, nodes = float(sys.argv[3]), int(sys.argv[4])
    start = time.monotonic() + 1.0
    tallies = [Tally() for _ in range(THREADS)]

    def work(number: int) -> None:
        for index in range(number, nodes, THREADS):
            send(folder, bundle, index, start + index / rate, tallies[number])

    cpu = time.process_time()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(summary(tallies, time.process_time() - cpu, time.monotonic() - start)))
    return 0


def summary(tallies: list[Tally], cpu: float, elapsed: float) -> dict[str, Any]:
    """The nodes' own words, together."""
    seconds = sorted(one for tally in tallies for one in tally.seconds)
    problems = [one for tally in tallies for one in tally.problems]
    return {
        "acknowledged": sum(tally.acknowledged for tally in tallies),
        "elapsed": elapsed,
        "cpu_ms": 1000 * cpu / max(1, len(seconds)),
        "median_ms": 1000 * seconds[len(seconds) // 2],
        "p99_ms": 1000 * seconds[len(seconds) * 99 // 100],
        "latest_s": max(max(tally.late) for tally in tallies if tally.late),
        "problems": len(problems),
        "problem": problems[0] if problems else "",
    }


if __name__ == "__main__":
    sys.exit(main())
