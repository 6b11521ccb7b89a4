"""How often a healthy hook calls Slurm's controller: counted by the controller itself, over many runs."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

from bench import roots
from bench.hooks import HOOKS, environment
from bench.table import Row

if TYPE_CHECKING:
    from bench.setting import Setting
    from minicluster import Cluster

#: Calls that slurmd, sdiag and other daemons make by themselves; everything else counts.
OWN = ("REQUEST_STATS_INFO", "MESSAGE_NODE_REGISTRATION_STATUS", "REQUEST_PING", "ACCOUNTING_UPDATE_MSG")
LINE = re.compile(r"^\s*([A-Z][A-Z0-9_]+)\s*\(\s*\d+\)\s+count:(\d+)", re.MULTILINE)


def counts(cluster: Cluster) -> dict[str, int]:
    """Calls by message type since the controller started, as `sdiag` tells them."""
    by_type = cluster.run(["sdiag"]).stdout.partition("by user")[0]
    return {name: int(count) for name, count in LINE.findall(by_type) if name not in OWN}


def run_hooks(cluster: Cluster, setting: Setting) -> set[int]:
    """Prologs, epilogs and healthchecks in turn, on the first node; returns the exit codes seen."""
    node = cluster.nodes[0]
    codes = set()
    for number in range(setting.hook_runs):
        hook = HOOKS[number % len(HOOKS)]
        env = {**environment(hook), "SLURMD_NODENAME": node.name, "SLURM_CONF": str(cluster.conf_path)}
        argv = [setting.shim(hook), "--root", str(node.root)]
        codes.add(subprocess.run(argv, env=env, capture_output=True, timeout=60, check=False).returncode)
    return codes


def rows(setting: Setting) -> list[Row]:
    """One row; the cluster has nothing else to do meanwhile."""
    from minicluster import Cluster

    with Cluster(setting.folder / "cluster", nodes=1) as cluster:
        node = cluster.nodes[0]
        roots.write_plan(
            node.root,
            roots.gpu_profile(),
            node=node.name,
            slurm_conf=str(cluster.conf_path),
            nvml_library=roots.nvml_library(node.root),
        )
        before = counts(cluster)
        codes = run_hooks(cluster, setting)
        after = counts(cluster)
        outcome = roots.judged(roots.last_record(node.root))
    made = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
    total = sum(made.values())
    kinds = ", ".join(f"{name} {count}" for name, count in sorted(made.items()))
    return [
        Row(
            f"calls to slurmctld, {setting.hook_runs:,} healthy runs",
            "0",
            "NHC 1-2 a run",
            f"{total}{f' ({kinds})' if kinds else ''}",
            holds=total == 0,
            note=f"by sdiag, without {', '.join(OWN)}; exit codes {sorted(codes)}; last run: {outcome}",
        )
    ]
