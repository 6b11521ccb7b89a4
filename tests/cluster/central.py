"""A real slurmctld with many nodes, a collector that acts on it, and an admin who acts in between."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from minicluster import Cluster, ghosts
from slurm_guard.engine import spool
from slurm_guard.slurm.command_gateway import CommandGateway
from slurm_guard.slurm.gateway import NodeState
from tests.cluster.collectors import Head, Node
from tests.unit.collector.fake_slurm import asking

COUNT = 120
NAMES = ghosts.names(COUNT)

MORE = """\
[collector.addresses]
"d[001-120]" = ["127.0.0.0/8"]

[slurm]
conf = "{conf}"
bin = "{programs}"

[budget]
nodes = {nodes}
percent = 100
per_hour = {per_hour}
nodes_per_job = 2

[[class]]
name = "8xH100"
nodes = "d[001-120]"

[[mode]]
mode = "enforce"
"""

#: Slurm's programs with a log of their calls, and an admin who acts right before a read or after an update:
#: never between the collector's read and its update, where Slurm lets nobody be safe.
WRAPPER = """\
#!/bin/sh
date +%s.%N >> {folder}/calls.log
echo "{name} $*" >> {folder}/said.log
admin() {{
    for act in {folder}/$1.*.admin; do
        [ -e "$act" ] && mv "$act" "$act.taken" 2> /dev/null && sh "$act.taken" && rm "$act.taken" && break
    done
}}
[ {name} = sinfo ] && admin before
{program} "$@"
status=$?
[ {name} = scontrol ] && admin after
exit $status
"""


class Central:
    """The cluster, the admin host and its nodes' spools."""

    def __init__(self, slurm: Cluster, folder: Path, nodes: int = 200, per_hour: int = 10_000) -> None:
        self.slurm = slurm
        self.folder = folder
        self.programs = folder / "bin"
        self.programs.mkdir()
        for name in ("scontrol", "sinfo", "squeue", "sacct"):
            text = WRAPPER.format(folder=folder, name=name, program=f"/usr/bin/{name}")
            (self.programs / name).write_text(text)
            (self.programs / name).chmod(0o755)
        conf = {"conf": slurm.conf_path, "programs": self.programs, "nodes": nodes, "per_hour": per_hour}
        self.head = Head(
            folder / "head", str(slurm.layout.munge_socket), "acting = true", MORE.format(**conf)
        )
        self.door = CommandGateway({}, str(slurm.conf_path))
        self._acts = 0

    def nodes(self) -> dict[str, NodeState]:
        """All nodes that have no slurmd, by name."""
        return {node.name: node for node in self.door.nodes(None, 60) if node.name in NAMES}

    def drained(self, reason: str = "") -> set[str]:
        """The names of drained nodes, with this reason if one is given."""
        return {
            name
            for name, node in self.nodes().items()
            if node.drained and (not reason or node.reason == reason)
        }

    def ask(self, names: list[str], **more: Any) -> list[str]:
        """Each node runs a healthcheck that asks for its drain, and ships it; runs that were taken over."""

        def one(name: str) -> list[str]:
            node = Node(self.head, self.folder / "nodes", name)
            jobs = (more.get("jobs") or {}).get(name)
            rest = {key: value for key, value in more.items() if key != "jobs"}
            spool.write(node.places, {**asking(name, jobs=jobs, **rest), "cluster": "lab"}, node.plan.spool)
            end, taken = time.monotonic() + 120, []
            while spool.paths(node.places):
                assert time.monotonic() < end, node.ship().why
                taken += node.ship().taken
                time.sleep(0.2 if spool.paths(node.places) else 0)
            return taken

        with ThreadPoolExecutor(8) as pool:
            return [run for found in pool.map(one, names) for run in found]

    def admin(self, when: str, *argv: str) -> None:
        """What an admin will do `before` a read of the collector's, or `after` an update, one each time."""
        self._acts += 1
        words = " ".join(f"'{word}'" for word in argv)
        path = self.folder / f"{when}.{self._acts:04d}.tmp"
        path.write_text(f"/usr/bin/scontrol update {words}\n")
        path.rename(path.with_suffix(".admin"))

    def left_to_do(self) -> int:
        """How many acts of the admin wait."""
        return len(list(self.folder.glob("*.admin")))

    def most_calls_in_a_second(self) -> int:
        """Of Slurm's programs."""
        made = sorted(float(line) for line in (self.folder / "calls.log").read_text().split())
        return max(sum(start <= at < start + 1 for at in made[i : i + 50]) for i, start in enumerate(made))

    def orders(self) -> dict[str, list[str]]:
        """The states of each node's orders, oldest first."""
        ask = "SELECT n.name, o.state FROM orders o JOIN nodes n ON n.id=o.node_id ORDER BY o.id"
        found: dict[str, list[str]] = {}
        for name, state in self.head.rows(ask):
            found.setdefault(name, []).append(state)
        return found

    def actions(self) -> list[tuple[str, str, str, dict[str, Any]]]:
        """(node, action, outcome, more) of what the collector did."""
        ask = (
            "SELECT n.name, a.action, a.outcome, a.extra FROM actions a JOIN runs r ON r.id=a.run "
            "JOIN nodes n ON n.id=a.node_id WHERE r.hook='collector' ORDER BY a.id"
        )
        return [(*row[:3], json.loads(row[3] or "{}")) for row in self.head.rows(ask)]

    def wait(self, condition: Callable[[], Any], seconds: float = 120) -> None:
        """Wait until a condition holds."""
        end = time.monotonic() + seconds
        while not condition():
            said = (self.head.root / "serve.log").read_text()[-2000:]
            assert time.monotonic() < end, f"{sorted(self.drained())}\n{self.orders()}\n{said}"
            time.sleep(0.2)

    def settled(self) -> bool:
        """True once no order waits."""
        return all(state not in ("waiting", "claimed") for some in self.orders().values() for state in some)


@contextmanager
def controller() -> Iterator[Cluster]:
    """A slurmctld with one real node and COUNT that have no slurmd."""
    folder = Path(tempfile.mkdtemp(prefix="central-"))
    folder.chmod(0o755)
    cluster = Cluster(folder, nodes=1, simulate=False, conf=ghosts.conf(COUNT))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def make_new(slurm: Cluster) -> None:
    """All nodes in service, without comments: down first, as Slurm resumes no node that never registered."""
    for change in (["state=down", "reason=new"], ["state=resume"], ["comment="]):
        slurm.run(["scontrol", "update", f"nodename={ghosts.names_text(COUNT)}", *change])
