"""`python -m fuzz [NAME…] [--seconds N] [--list]`: each target for so long; 1 if something was found."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fuzz.targets import all_targets

FOLDER = Path(__file__).resolve().parents[1] / ".cache" / "fuzz"
#: Where targets write the files that they read: in memory, where that is possible.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
_COUNT = re.compile(r"stat::number_of_executed_units:\s+(\d+)")


def main() -> int:
    """The command line."""
    known = all_targets()
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="targets (default: all, see --list)")
    parser.add_argument("--seconds", type=int, default=60, metavar="N", help="for each target (60)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"corpus and what is found ({FOLDER})")
    parser.add_argument("--list", action="store_true", help="say what there is")
    asked = parser.parse_args()
    unknown = sorted(set(asked.names) - set(known))
    if unknown:
        parser.error(f"unknown target {', '.join(unknown)}; there are {', '.join(known)}")
    if asked.list:
        for one in known.values():
            print(f"{one.name:<18} {one.what}")
        return 0
    return max([run(name, asked.seconds, asked.folder) for name in asked.names or known])


def run(name: str, seconds: int, folder: Path) -> int:
    """One target in a process of its own; prints a line, and all that it said if something was found."""
    began = time.monotonic()
    cpu = sum(os.times()[2:4])
    argv = [sys.executable, "-m", "fuzz.one", name, str(seconds), str(folder)]
    with tempfile.TemporaryDirectory(prefix="sguard-fuzz-", dir=MEMORY) as scratch:
        env = {**os.environ, "TMPDIR": scratch}
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False, env=env)
    said = done.stderr + done.stdout
    count = max((int(one) for one in _COUNT.findall(said)), default=0)
    cpu = sum(os.times()[2:4]) - cpu
    word = "nothing found" if done.returncode == 0 else f"FOUND SOMETHING, see {folder}/found/{name}"
    print(
        f"{name:<18} {count:>9} runs {cpu:6.0f} s CPU {time.monotonic() - began:6.0f} s  {word}", flush=True
    )
    if done.returncode:
        print(done.stderr[-1500:], done.stdout[-4000:], sep="\n", flush=True)
    return min(1, abs(done.returncode))


if __name__ == "__main__":
    sys.exit(main())
