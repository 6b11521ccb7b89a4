"""`python -m bench.soak`: jobs, faults, repairs and a restarting controller on a real Slurm, for a while.

Ends with 1 if a rule was broken: more nodes drained than the budget allows, a drain without the guard's
reason, an admin's reason changed, a node that does not come back after its faults are gone, or a hook left
running.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench import roots
from bench.setting import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Callable

    from minicluster import Cluster, Node

NODES = 8
BUDGET = 2
HEALTHCHECK_S = 10
PATIENCE_S = 180.0
ADMIN_REASON = "rack 7: replacing PDU"
FAULTS = (
    ("gpu_count.lost", "gpu3"),
    ("gpu_xid.79", "gpu5"),
    ("ib_link.down", "mlx5_0/1"),
    ("fs_mounts.hung", "/local"),
)


class Soak:
    """One soak: what it drew, what it saw, what was wrong."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.draw = random.Random(seed)
        self.counts: dict[str, int] = {}
        self.problems: list[str] = []
        self.admin_node = cluster.nodes[-1].name
        self.drained: set[str] = set()

    def count(self, what: str) -> None:
        """One more of something, for the summary."""
        self.counts[what] = self.counts.get(what, 0) + 1

    def submit_jobs(self) -> None:
        """A few short jobs of one or two nodes."""
        for _ in range(self.draw.randint(1, 4)):
            nodes = self.draw.choice((1, 1, 2))
            self.cluster.run(
                ["sbatch", "-Q", f"-N{nodes}", "--gres=gpu:2", "--mem=100", "-o", "/dev/null",
                 "--wrap", f"sleep {self.draw.randint(0, 3)}"]
            )  # fmt: skip
            self.count("jobs")

    def break_node(self) -> None:
        """Set one fault on one node."""
        name, device = self.draw.choice(FAULTS)
        self.draw.choice(self.cluster.nodes[:-1]).fault(name, device)
        self.count(f"fault {name}")

    def mend_node(self) -> None:
        """Clear all faults of one node that has any."""
        sick = [node for node in self.cluster.nodes if node.faults()]
        if sick:
            mend(self.draw.choice(sick))
            self.count("mended")

    def restart_controller(self) -> None:
        """Stop and start slurmctld; hooks meanwhile find nobody to talk to."""
        self.cluster.stop_controller()
        time.sleep(self.draw.uniform(0.5, 3))
        self.cluster.start_controller()
        self.count("controller restarts")

    def check(self) -> None:
        """The rules that hold at every moment."""
        drained = {}
        for line in self.cluster.run(["sinfo", "-h", "-N", "-o", "%N|%T|%E"]).stdout.splitlines():
            name, state, reason = line.split("|", 2)
            if state.startswith("drain"):
                drained[name] = reason
        admin = drained.pop(self.admin_node, None)
        if admin != ADMIN_REASON:
            self.problems.append(f"{self.admin_node}: the admin's drain reads {admin!r}")
        if len(drained) > BUDGET:
            self.problems.append(f"{len(drained)} nodes drained, the budget is {BUDGET}: {drained}")
        for name in drained.keys() ^ self.drained:
            self.count("drains" if name in drained else "returns")
        self.drained = set(drained)
        for name, reason in drained.items():
            if not reason.startswith("SG"):
                self.problems.append(f"{name} is drained with {reason!r}")

    def turn(self) -> None:
        """One random event, then the rules."""
        events: list[tuple[Callable[[], None], int]] = [
            (self.submit_jobs, 10),
            (self.break_node, 3),
            (self.mend_node, 4),
            (self.restart_controller, 1),
        ]
        event = self.draw.choices([one for one, _ in events], [weight for _, weight in events])[0]
        event()
        self.check()

    def finish(self) -> None:
        """Mend everything: every node but the admin's must come back by itself."""
        for node in self.cluster.nodes:
            mend(node)
        others = [node.name for node in self.cluster.nodes[:-1]]

        def back() -> bool:
            states = self.cluster.states()
            return all(not states.get(name, "drained").startswith(("drain", "down")) for name in others)

        try:
            self.cluster.wait(back, timeout=PATIENCE_S, interval=1.0)
        except Exception as error:
            self.problems.append(f"not all nodes came back: {self.cluster.states()} ({error})")
            for node in self.cluster.nodes[:-1]:
                if self.cluster.states().get(node.name) != "idle":
                    known = node.root / "var/lib/slurm-guard/faults.json"
                    text = known.read_text() if known.exists() else "no faults"
                    self.problems.append(f"{node.name}: {text}")
        self.check()


def mend(node: Node) -> None:
    """No faults; an Xid or a lost GPU is gone only after a reboot."""
    if node.faults():
        node.clear()
        node.reboot()


def hooks_left(folder: Path) -> list[str]:
    """Command lines of hooks of this cluster that still run."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in command and ("sguard" in command or "slurm_guard" in command):
            found.append(f"{process.name}: {command}")
    return found


def prepare(cluster: Cluster) -> None:
    """A plan that enforces everything, and one node that an admin has drained."""
    for node in cluster.nodes:
        roots.write_plan(
            node.root,
            roots.gpu_profile(),
            node=node.name,
            programs={name: f"/usr/bin/{name}" for name in ("scontrol", "sinfo", "squeue", "sacct")},
            slurm_conf=str(cluster.conf_path),
            nvml_library=roots.nvml_library(node.root),
            budget={"nodes": BUDGET, "percent": 100.0, "per_hour": 1000, "shared_nodes": 1},
            grace_s=15,  # by default a fresh boot proves nothing for five minutes
            **{"return": {"clean_runs": 3, "clean_s": 0, "watch_s": 0, "flaps": 0}},
        )
    admin = cluster.nodes[-1].name
    cluster.run(["scontrol", "update", f"nodename={admin}", "state=drain", f"reason={ADMIN_REASON}"])


def run(folder: Path, minutes: float, seed: int) -> Soak:
    """Start, soak, mend, stop."""
    from minicluster import Cluster

    with Cluster(folder, nodes=NODES, hooks=CHECKOUT, health_interval=HEALTHCHECK_S) as cluster:
        prepare(cluster)
        soak = Soak(cluster, seed)
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end:
            soak.turn()
            time.sleep(soak.draw.uniform(0.2, 2))
        soak.finish()
    soak.problems += [f"left running: {line}" for line in hooks_left(folder)]
    return soak


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    print(f"soak: {arguments.minutes:g} minutes, seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="sguard-soak-") as folder:
        soak = run(Path(folder) / "cluster", arguments.minutes, arguments.seed)
    for what, count in sorted(soak.counts.items()):
        print(f"{count:6d} {what}")
    for problem in dict.fromkeys(soak.problems):
        print(f"WRONG: {problem}")
    print(f"soak: {'broken' if soak.problems else 'all rules held'}")
    return 1 if soak.problems else 0


if __name__ == "__main__":
    sys.exit(main())
