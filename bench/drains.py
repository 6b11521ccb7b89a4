"""500 drains on a real slurmctld: 500 nodes ask in the same second, and the collector carries it out.

The 1,200 nodes are the controller's own: no slurmd runs for them, so what a node's registration and ping cost
is not in it. Records, shipper, munge, collector, Slurm's programs and controller are the real ones.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.collector import collector, free_port
from bench.table import Row
from minicluster import Cluster, ghosts
from slurm_guard.slurm.command_gateway import CommandGateway

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.setting import Setting

NODES, DRAINS = 1200, 500
MOST_S, MOST_CALLS = 60.0, 10
_CONFIG = """
cluster = "bench"
[slurm]
conf = "{conf}"
bin = "{programs}"
[collector]
url = "http://127.0.0.1:{port}"
listen = "127.0.0.1:{port}"
munge_socket = "{socket}"
acting = true
[collector.addresses]
"{names}" = ["127.0.0.1"]
[budget]
nodes = 1200
percent = 100
per_hour = 10000
[[class]]
name = "drained"
nodes = "{names}"
[[mode]]
mode = "enforce"
"""


def rows(setting: Setting) -> list[Row]:
    """All with one fault; and each with another GPU and a job of its own."""
    folder = Path(setting.folder) / "central"
    found = []
    with controller(folder) as slurm:
        for name, note in (
            ("one", "one fault; no jobs"),
            ("many", "eight devices, each node with a job of its own"),
        ):
            found += measured(setting, slurm, folder / name, name, note)
    return found


def measured(setting: Setting, slurm: Cluster, folder: Path, how: str, note: str) -> list[Row]:
    """The rows of one way to fail."""
    for change in (["state=down", "reason=new"], ["state=resume"], ["comment="]):
        slurm.run(["scontrol", "update", f"nodename={ghosts.names_text(NODES)}", *change])
    root = configured(setting, slurm, folder)
    door = CommandGateway({}, str(slurm.conf_path))
    with collector(setting, root):
        plan = root / "var/lib/slurm-guard/plan.json"
        began = time.monotonic()
        argv = [sys.executable, "-m", "bench.drains_load", str(folder / "nodes"), str(plan), str(DRAINS), how]
        done = subprocess.run(argv, check=True, capture_output=True, text=True)
        asked = time.monotonic() - began
        count = 0
        while count < DRAINS and time.monotonic() - began < 1.5 * MOST_S:
            time.sleep(0.1)
            count = sum(node.drained for node in door.nodes(None, 30))
        elapsed = time.monotonic() - began
    calls = sorted(float(line) for line in (folder / "calls.log").read_text().split())
    most = max(sum(start <= at < start + 1 for at in calls[i : i + 100]) for i, start in enumerate(calls))
    told = json.loads(done.stdout)
    more = f"{note}; all had asked after {asked:.0f} s; {len(calls)} calls in all; {told['taken']} taken over"
    return [
        Row(
            f"{DRAINS} drains, {how}",
            f"<= {MOST_S:.0f} s",
            "-",
            f"{count} in {elapsed:.0f} s",
            holds=count == DRAINS and elapsed <= MOST_S,
            note=f"{more}; 1,200 nodes of a real slurmctld without slurmd",
        ),
        Row(
            f"calls to Slurm, {how}",
            f"<= {MOST_CALLS} a second",
            "-",
            f"{most} in the busiest",
            holds=most <= MOST_CALLS,
        ),
    ]


def configured(setting: Setting, slurm: Cluster, folder: Path) -> Path:
    """The head's root, with a plan, and Slurm's programs that log when they are called."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    for name in ("scontrol", "sinfo", "squeue", "sacct"):
        text = f'#!/bin/sh\ndate +%s.%N >> {folder}/calls.log\nexec /usr/bin/{name} "$@"\n'
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    root = folder / "head"
    (root / "etc/slurm-guard").mkdir(parents=True)
    text = _CONFIG.format(
        conf=slurm.conf_path,
        programs=programs,
        port=free_port(),
        socket=slurm.layout.munge_socket,
        names=ghosts.names_text(NODES),
    )
    (root / "etc/slurm-guard/slurm-guard.toml").write_text(text)
    subprocess.run([setting.sguard, "config", "apply", "--root", str(root)], check=True, capture_output=True)
    return root


@contextmanager
def controller(folder: Path) -> Iterator[Cluster]:
    """A slurmctld with one real node and 1,200 without a slurmd."""
    folder.mkdir(mode=0o755)
    folder.parent.chmod(0o755)
    with Cluster(folder / "slurm", nodes=1, simulate=False, conf=ghosts.conf(NODES)) as slurm:
        yield slurm
