"""The script that `sguard collect` starts over SSH: `python -I -S send.py [--root DIR]`.

Isolated and without `site`, as the hooks' script: see boot.py.
"""

from __future__ import annotations

import os
import sys


def start() -> int:
    """Hand out the spool on standard output; 0 once the other side has what it wants."""
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.path.insert(0, here)
    sys.dont_write_bytecode = os.geteuid() != 0
    from slurm_guard.engine import sending

    return sending.main(sys.argv[1:], sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    # Not sys.exit: its last flush would complain of an other side that has left.
    os._exit(start())
