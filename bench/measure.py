"""Measures commands: CPU of all descendants, wall time, memory; bare interpreter and command take turns."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

COUNTER = Path(__file__).with_name("counter.py")
BARE_ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C"}


@dataclass(frozen=True)
class Cost:
    """What one run of a command cost: exit status, seconds, and peak RSS of its largest process in KiB."""

    status: int
    wall: float
    wall_all: float
    cpu: float
    rss_kib: int


@dataclass(frozen=True)
class Series:
    """The costs of a command's repetitions, warm-up left out."""

    costs: list[Cost]

    def cpu_ms(self) -> float:
        """Median CPU time of the command with all its descendants, in milliseconds."""
        return 1000 * statistics.median(cost.cpu for cost in self.costs)

    def wall_ms(self) -> float:
        """Median time until the command itself ended, in milliseconds."""
        return 1000 * statistics.median(cost.wall for cost in self.costs)

    def rss_mb(self) -> float:
        """Largest peak RSS of any single process of any repetition, in MB."""
        return max(cost.rss_kib for cost in self.costs) / 1024

    def statuses(self) -> set[int]:
        """The exit codes that were seen."""
        return {cost.status for cost in self.costs}


def run_once(argv: list[str], env: dict[str, str] | None = None, orphans: bool = True) -> Cost:
    """Run a command and count it and all its descendants; without `orphans`, only until it ends itself."""
    task = json.dumps({"argv": argv, "env": env or BARE_ENV, "orphans": orphans})
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(COUNTER), "1"],
        input=task,
        capture_output=True,
        text=True,
        check=True,
    )
    return Cost(**json.loads(done.stdout))


def alternate(
    commands: dict[str, tuple[list[str], dict[str, str] | None]], repetitions: int, warm_up: int = 2
) -> dict[str, Series]:
    """Run several commands in turn, so that a busy moment of the machine hits all of them alike."""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for turn in range(repetitions + warm_up):
        for name, (argv, env) in commands.items():
            cost = run_once(argv, env)
            if turn >= warm_up:
                costs[name].append(cost)
    return {name: Series(found) for name, found in costs.items()}


def bare_interpreter(python: str) -> list[str]:
    """An interpreter that does nothing, with the flags of the shims: the floor of any hook in Python."""
    return [python, "-I", "-S", "-c", "pass"]


def peak_memory_mb(argv: list[str], env: dict[str, str] | None = None) -> float:
    """Most memory that a command and all its descendants held at once (sum of PSS), by sampling, in MB."""
    process = subprocess.Popen(
        argv,
        env=env or BARE_ENV,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(_pss_kib(pid) for pid in _descendants(process.pid)))
        time.sleep(0.001)
    return peak / 1024


def _descendants(pid: int) -> list[int]:
    found = [pid]
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found.extend(_descendants(int(child)))
    except OSError:
        pass
    return found


def _pss_kib(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return 0
