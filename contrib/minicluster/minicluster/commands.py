"""The commands of `minicluster`: each takes its parsed arguments and returns its exit code."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from minicluster.cluster import Cluster
from minicluster.errors import FaultError, MiniclusterError
from minicluster.faults import all_faults

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from types import FrameType

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DEFAULT_DIRECTORY = ".minicluster"


def up(arguments: argparse.Namespace) -> int:
    """Start a cluster, unless it is up already."""
    hooks = None if arguments.hooks in (None, "none") else arguments.hooks
    cluster = Cluster(
        _directory(arguments),
        nodes=arguments.nodes,
        slurm_user=arguments.slurm_user,
        dbd=arguments.dbd,
        hooks=hooks,
        conf=_pairs(arguments.conf),
        health_interval=arguments.health_interval,
        simulate=not arguments.no_sim,
    )
    if (cluster.directory / "cluster.json").exists() and Cluster.open(cluster.directory).is_up():
        print(f"{cluster.directory} is up already")
        return 0
    with _interruptible():
        cluster.start()
    print(f"{arguments.nodes} nodes are up in {cluster.directory}\n{_export(cluster)}")
    return 0


def down(arguments: argparse.Namespace) -> int:
    """End a cluster; one that is down is left alone."""
    directory = _directory(arguments)
    if not (directory / "cluster.json").exists():
        print(f"no cluster in {directory}: nothing to do")
        return 0
    cluster = Cluster.open(directory)
    cluster.stop()
    if arguments.remove:
        shutil.rmtree(directory)
    return 0


def status(arguments: argparse.Namespace) -> int:
    """Daemons, node states, faults; exit code 1 while it is down."""
    cluster = Cluster.open(_directory(arguments))
    running = cluster.daemons.running()
    print(f"{cluster.directory}: {'up' if running else 'down'}")
    if running:
        print(f"processes: {' '.join(running)}")
    states = cluster.states() if "slurmctld" in running else {}
    for node in cluster.nodes:
        faults = node.faults() if cluster.simulate else []
        broken = ", ".join(" ".join(filter(None, (entry["name"], entry["device"]))) for entry in faults)
        print(f"{node.name:<5} {states.get(node.name, 'unknown'):<12} {broken}".rstrip())
    return 0 if running else 1


def env(arguments: argparse.Namespace) -> int:
    """The line for `eval` that points Slurm's clients here."""
    print(_export(Cluster.open(_directory(arguments))))
    return 0


def fault(arguments: argparse.Namespace) -> int:
    """Break something on a node."""
    node = _simulated(arguments).node(arguments.node)
    node.fault(arguments.name, arguments.device, **_pairs(arguments.set))
    return 0


def clear(arguments: argparse.Namespace) -> int:
    """Mend it. Raises FaultError for a fault that is not set."""
    node = _simulated(arguments).node(arguments.node)
    if node.clear(arguments.name, arguments.device) or not arguments.name:
        return 0
    wanted = f"{arguments.name} {arguments.device or ''}".strip()
    there = ", ".join(f"{one['name']} {one['device'] or ''}".strip() for one in node.faults()) or "nothing"
    raise FaultError(f"{wanted} is not set on {arguments.node}; set: {there}")


def reboot(arguments: argparse.Namespace) -> int:
    """A new boot of a node's simulated machine."""
    _simulated(arguments).node(arguments.node).reboot(restart_slurmd=arguments.restart_slurmd)
    return 0


def faults(arguments: argparse.Namespace) -> int:
    """All faults with their settings, a line each."""
    for entry in all_faults():
        device = {"gpu": "gpuN", "port": "mlx5_N/1", "hca": "mlx5_N", "mount": "/PATH"}.get(entry.device, "")
        settings = " ".join(f"{key}={value}" for key, value in entry.defaults.items() if value)
        print(f"{entry.name + ' ' + device:<44} {entry.summary}" + (f"  [{settings}]" if settings else ""))
    print(
        f"{'gpu_xid.CODE gpuN':<44} any other Xid code\n{'ib_errors.COUNTER mlx5_N/1':<44} any other counter"
    )
    return 0


def execute(arguments: argparse.Namespace) -> int:
    """Run a program with SLURM_CONF set; its exit code is ours, 128 and more that of a signal."""
    cluster = Cluster.open(_directory(arguments))
    argv = arguments.argv[arguments.argv[:1] == ["--"] :]
    if not argv:
        raise MiniclusterError("exec needs a program, for instance: minicluster exec sinfo")
    try:
        code = subprocess.run(argv, env=cluster.env, check=False).returncode
    except FileNotFoundError:
        raise MiniclusterError(f"there is no program {argv[0]!r}") from None
    return code if code >= 0 else 128 - code


def controller(arguments: argparse.Namespace) -> int:
    """Stop, start, hang or release slurmctld."""
    cluster = Cluster.open(_directory(arguments))
    {
        "stop": cluster.stop_controller,
        "start": cluster.start_controller,
        "pause": cluster.pause_controller,
        "resume": cluster.resume_controller,
    }[arguments.action]()
    return 0


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM and SIGHUP are Ctrl-C, which ends what was started; no second one cuts that short."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        for name in ENDINGS:
            signal.signal(name, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {name: signal.signal(name, interrupt) for name in ENDINGS}
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is interrupt:  # else we are about to end, undisturbed
            for name, handler in before.items():
                signal.signal(name, handler)


def _directory(arguments: argparse.Namespace) -> Path:
    given = arguments.dir or getattr(arguments, "place", None) or os.environ.get("MINICLUSTER_DIR")
    return Path(given or DEFAULT_DIRECTORY).resolve()


def _simulated(arguments: argparse.Namespace) -> Cluster:
    cluster = Cluster.open(_directory(arguments))
    if not cluster.simulate:
        raise MiniclusterError(
            "this cluster was started with --no-sim: there is no simulated machine to change"
        )
    if cluster.is_down():  # a fault would mount things that nobody unmounts
        raise MiniclusterError(f"the cluster in {cluster.directory} is down; `minicluster up` starts it anew")
    return cluster


def _export(cluster: Cluster) -> str:
    return f"export SLURM_CONF={shlex.quote(str(cluster.conf_path))}"


def _pairs(words: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise MiniclusterError(f"expected KEY=VALUE, got {word!r}")
        pairs[key] = value
    return pairs
