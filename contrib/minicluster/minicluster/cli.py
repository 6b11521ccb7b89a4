"""The shell command `minicluster`."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from minicluster.cluster import Cluster
from minicluster.errors import MiniclusterError
from minicluster.faults import all_faults

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_DIRECTORY = ".minicluster"


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done, 1 it can't be done (one line on stderr), 2 usage, 141 our reader left, else that of
    `exec`'s program.
    """
    arguments = _parser().parse_args(argv)
    try:
        code = int(arguments.command(arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python's last flush complains
        return 141
    except MiniclusterError as error:
        print(f"minicluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return code


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
    """Mend it."""
    _simulated(arguments).node(arguments.node).clear(arguments.name, arguments.device)
    return 0


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
    """Run a program with SLURM_CONF set."""
    cluster = Cluster.open(_directory(arguments))
    return subprocess.run(arguments.argv, env=cluster.env, check=False).returncode


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


def _directory(arguments: argparse.Namespace) -> Path:
    given = arguments.dir or getattr(arguments, "place", None) or os.environ.get("MINICLUSTER_DIR")
    return Path(given or DEFAULT_DIRECTORY).resolve()


def _simulated(arguments: argparse.Namespace) -> Cluster:
    cluster = Cluster.open(_directory(arguments))
    if not cluster.simulate:
        raise MiniclusterError(
            "this cluster was started with --no-sim: there is no simulated machine to change"
        )
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="minicluster", description="A real Slurm on one host, with simulated hardware."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--dir", help="the cluster's folder (default: $MINICLUSTER_DIR or ./.minicluster)")
    place = argparse.ArgumentParser(add_help=False, parents=[common])
    place.add_argument("place", nargs="?", metavar="DIR", help="the same, as an argument")

    _add_up(
        commands.add_parser("up", parents=[place], help="start a cluster and wait until its nodes are idle")
    )
    parser_down = commands.add_parser(
        "down", parents=[place], help="end it; nothing is left running or mounted"
    )
    parser_down.add_argument("--remove", action="store_true", help="remove its folder too")
    parser_down.set_defaults(command=down)
    commands.add_parser("status", parents=[place], help="daemons, node states, faults").set_defaults(
        command=status
    )
    commands.add_parser("env", parents=[place], help="shell line that sets SLURM_CONF").set_defaults(
        command=env
    )
    commands.add_parser("faults", help="list all faults").set_defaults(command=faults)
    _add_node_commands(commands, common)

    _add_program_commands(commands, common)
    return parser


def _add_up(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, default=4, help="1 to 64 (default: 4)")
    parser.add_argument("--slurm-user", default="root", help="the user of slurmctld (default: root)")
    parser.add_argument("--dbd", action="store_true", help="also slurmdbd with MariaDB, so that sacct works")
    parser.add_argument(
        "--hooks", metavar="CHECKOUT", help="run slurm_guard's hooks from this checkout (default: none)"
    )
    parser.add_argument("--health-interval", type=int, default=0, metavar="S", help="HealthCheckInterval")
    parser.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="a further slurm.conf line"
    )
    parser.add_argument("--no-sim", action="store_true", help="no simulated hardware")
    parser.set_defaults(command=up)


def _add_program_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser
) -> None:
    parser = commands.add_parser("exec", parents=[common], help="run a program with SLURM_CONF set")
    parser.add_argument("argv", nargs=argparse.REMAINDER, metavar="PROGRAM ...")
    parser.set_defaults(command=execute)
    parser = commands.add_parser("controller", parents=[common], help="stop or hang slurmctld")
    parser.add_argument("action", choices=("stop", "start", "pause", "resume"))
    parser.set_defaults(command=controller)


def _add_node_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser
) -> None:
    parser = commands.add_parser("fault", parents=[common], help="break something on a node")
    parser.add_argument("node")
    parser.add_argument("name", help="such as gpu_count.lost; see `minicluster faults`")
    parser.add_argument("device", nargs="?", help="such as gpu3, mlx5_0/1, /scratch")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.set_defaults(command=fault)
    parser = commands.add_parser(
        "clear", parents=[common], help="mend everything, a fault, or a fault on a device"
    )
    parser.add_argument("node")
    parser.add_argument("name", nargs="?")
    parser.add_argument("device", nargs="?")
    parser.set_defaults(command=clear)
    parser = commands.add_parser("reboot", parents=[common], help="a new boot of the simulated machine")
    parser.add_argument("node")
    parser.add_argument("--restart-slurmd", action="store_true", help="restart the node's slurmd as well")
    parser.set_defaults(command=reboot)


if __name__ == "__main__":
    sys.exit(main())
