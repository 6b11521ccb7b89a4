"""The collector: 10,000 nodes with one record each a minute, the real shipper, munge verified each time."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

from bench.munge_daemon import munged
from bench.table import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.setting import Setting

NODES_PER_MINUTE = 10_000
CORES, RSS_MB = 1.0, 500
_CONFIG = """
cluster = "bench"
[collector]
url = "http://127.0.0.1:{port}"
listen = "127.0.0.1:{port}"
munge_socket = "{socket}"
[collector.addresses]
"n[00001-{nodes:05d}]" = ["127.0.0.1"]
"""
_TICKS = os.sysconf("SC_CLK_TCK")


def rows(setting: Setting) -> list[Row]:
    """A short run at the full rate; `--collector-seconds` makes it longer."""
    rate = NODES_PER_MINUTE / 60
    nodes = round(rate * setting.collector_s)
    with munged(setting.folder / "munge") as (door, daemon):
        found = measured(setting, str(door), daemon, rate, nodes)
    note = (
        f"{nodes:,} nodes, each its own record, in {found['elapsed']:.0f} s; "
        f"{found['acknowledged']:,} acknowledged, {found['problems']} failed {found['problem']}".rstrip()
    )
    return [
        Row(
            "collector, 10,000 nodes a minute",
            f"<= {CORES:.0f} core",
            "-",
            f"{found['cores']:.2f} cores",
            holds=found["cores"] <= CORES,
            note=f"{note}; munged, which signs for nodes too: {found['munged_cores']:.2f} cores",
        ),
        Row(
            "collector, memory",
            f"<= {RSS_MB} MB",
            "-",
            f"{found['rss_mb']:.0f} MB",
            holds=found["rss_mb"] <= RSS_MB,
        ),
        Row(
            "collector, backlog",
            "none",
            "-",
            f"{found['backlog']} left, answer in {found['median_ms']:.0f} ms (p99 {found['p99_ms']:.0f})",
            holds=found["backlog"] == 0 and found["acknowledged"] == nodes and found["latest_s"] < 1,
            note=f"a shipment began at most {found['latest_s']:.1f} s late; requests share commits",
        ),
        Row(
            "shipping, CPU of a run",
            "<= 100 ms",
            "-",
            f"{found['cpu_ms']:.1f} ms",
            holds=found["cpu_ms"] <= 100,
            note="one process sends for all nodes: no start of an interpreter in it, but making the record",
        ),
    ]


def measured(setting: Setting, door: str, munge: int, rate: float, nodes: int) -> dict[str, Any]:
    """Send, and see what it costs."""
    root = setting.folder / "head"
    port = free_port()
    (root / "etc/slurm-guard").mkdir(parents=True)
    text = _CONFIG.format(port=port, socket=door, nodes=nodes)
    (root / "etc/slurm-guard/slurm-guard.toml").write_text(text)
    subprocess.run([setting.sguard, "config", "apply", "--root", str(root)], check=True, capture_output=True)
    with collector(setting, root) as pid:
        before = cpu_of(pid), cpu_of(munge), time.monotonic()
        plan = root / "var/lib/slurm-guard/plan.json"
        argv = [sys.executable, "-m", "bench.collector_load", str(setting.folder / "nodes"), str(plan)]
        argv += [str(rate), str(nodes)]
        done = subprocess.run(argv, check=True, capture_output=True, text=True)
        elapsed = time.monotonic() - before[2]
        found: dict[str, Any] = json.loads(done.stdout)
        with urlopen(f"http://127.0.0.1:{port}/v1/health", timeout=5) as reply:
            found["backlog"] = json.loads(reply.read())["backlog"]
        found["cores"] = (cpu_of(pid) - before[0]) / elapsed
        found["munged_cores"] = (cpu_of(munge) - before[1]) / elapsed
        found["rss_mb"] = peak_rss_mb(pid)
    return found


def free_port() -> int:
    """A port of loopback that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def collector(setting: Setting, root: Path) -> Iterator[int]:
    """A running `sguard serve`; its pid once it listens."""
    argv = [setting.sguard, "serve", "--root", str(root), "--json"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            text = ""
            while not text.rstrip().endswith("}"):
                line = process.stdout.readline()
                if not line:
                    raise RuntimeError("sguard serve did not start")
                text += line
            yield process.pid
        finally:
            process.terminate()
            process.wait(60)


def cpu_of(pid: int) -> float:
    """CPU seconds of a process, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def peak_rss_mb(pid: int) -> float:
    """The most memory that a process had at once, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0
