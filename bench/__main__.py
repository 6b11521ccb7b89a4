"""`python -m bench [PART…]`: figures, each beside its budget and the bare interpreter's in the same run."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

from bench import table
from bench.setting import Setting
from minicluster.mounting import unmount_below

PARTS = ("hooks", "shipping", "hangs", "slurm_calls", "store", "report", "commands", "collector", "drains")


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--repetitions", type=int, default=20, metavar="N", help="runs per figure (20)")
    parser.add_argument("--hook-runs", type=int, default=1000, metavar="N", help="runs to watch (1000)")
    parser.add_argument(
        "--scale", type=float, default=1.0, metavar="X", help="share of 2,000 nodes in the store (1)"
    )
    parser.add_argument(
        "--collector-seconds", type=int, default=20, metavar="N", help="how long nodes send (20)"
    )
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    found = parser.parse_args(arguments)
    unknown = sorted(set(found.parts) - set(PARTS) - {"peers"})
    if unknown:
        parser.error(f"unknown part {', '.join(unknown)}; there are {', '.join(PARTS)} and peers")
    return found


def machine() -> str:
    """One line on what this was measured on; two machines compare only by their bare interpreter."""
    load = os.getloadavg()[0]
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return f"{when}; CPython {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f}"


def measure(part: str, setting: Setting) -> list[table.Row]:
    """The rows of one part; a part that cannot run here says why instead."""
    print(f"bench: {part} …", file=sys.stderr, flush=True)
    try:
        found: list[table.Row] = import_module(f"bench.{part}").rows(setting)
    except Exception as error:
        return [table.Row(part, "", "", "not measured", note=f"{type(error).__name__}: {error}")]
    return found


def main() -> int:
    """Measure, print, end with 0: figures are for people, not for CI."""
    arguments = parse(sys.argv[1:])
    found: list[table.Row] = []
    where = machine()
    for part in arguments.parts or PARTS:
        with tempfile.TemporaryDirectory(prefix="sguard-bench-") as folder:
            setting = Setting(
                Path(folder),
                arguments.repetitions,
                arguments.scale,
                arguments.hook_runs,
                arguments.collector_seconds,
            )
            try:
                found += measure(part, setting)
            finally:
                unmount_below(setting.folder)
    print(table.as_json(found) if arguments.json else f"{where}\n\n{table.text(found)}", end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
