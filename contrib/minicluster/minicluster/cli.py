"""The shell command `minicluster`."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from minicluster import commands
from minicluster.errors import MiniclusterError

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done, 1 it can't be done (one line on stderr), 2 usage, 130 interrupted, 141 our reader
    left, else that of `exec`'s program.
    """
    arguments = _parser().parse_args(argv)
    try:
        code = int(arguments.command(arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python's last flush complains
        return 141
    except (MiniclusterError, OSError) as error:  # OSError: a full disk, a folder that is not ours
        print(f"minicluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="minicluster", description="A real Slurm on one host, with simulated hardware."
    )
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--dir", help="the cluster's folder (default: $MINICLUSTER_DIR or ./.minicluster)")
    place = argparse.ArgumentParser(add_help=False, parents=[common])
    place.add_argument("place", nargs="?", metavar="DIR", help="the same, as an argument")

    _add_up(
        subparsers.add_parser("up", parents=[place], help="start a cluster and wait until its nodes are idle")
    )
    parser_down = subparsers.add_parser(
        "down", parents=[place], help="end it; nothing is left running or mounted"
    )
    parser_down.add_argument("--remove", action="store_true", help="remove its folder too")
    parser_down.set_defaults(command=commands.down)
    subparsers.add_parser("status", parents=[place], help="daemons, node states, faults").set_defaults(
        command=commands.status
    )
    subparsers.add_parser("env", parents=[place], help="shell line that sets SLURM_CONF").set_defaults(
        command=commands.env
    )
    subparsers.add_parser("faults", help="list all faults").set_defaults(command=commands.faults)
    _add_node_commands(subparsers, common)
    _add_program_commands(subparsers, common)
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
    parser.set_defaults(command=commands.up)


def _add_program_commands(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser
) -> None:
    parser = subparsers.add_parser("exec", parents=[common], help="run a program with SLURM_CONF set")
    parser.add_argument("argv", nargs=argparse.REMAINDER, metavar="PROGRAM ...")
    parser.set_defaults(command=commands.execute)
    parser = subparsers.add_parser("controller", parents=[common], help="stop or hang slurmctld")
    parser.add_argument("action", choices=("stop", "start", "pause", "resume"))
    parser.set_defaults(command=commands.controller)


def _add_node_commands(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser
) -> None:
    parser = subparsers.add_parser("fault", parents=[common], help="break something on a node")
    parser.add_argument("node")
    parser.add_argument("name", help="such as gpu_count.lost; see `minicluster faults`")
    parser.add_argument("device", nargs="?", help="such as gpu3, mlx5_0/1, /scratch")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.set_defaults(command=commands.fault)
    parser = subparsers.add_parser(
        "clear", parents=[common], help="mend everything, a fault, or a fault on a device"
    )
    parser.add_argument("node")
    parser.add_argument("name", nargs="?")
    parser.add_argument("device", nargs="?")
    parser.set_defaults(command=commands.clear)
    parser = subparsers.add_parser("reboot", parents=[common], help="a new boot of the simulated machine")
    parser.add_argument("node")
    parser.add_argument("--restart-slurmd", action="store_true", help="restart the node's slurmd as well")
    parser.set_defaults(command=commands.reboot)
