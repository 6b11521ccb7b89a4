"""The script that the shims start: `python -I -S boot.py HOOK [--root DIR]`.

Isolated (`-I`) and without `site` (`-S`): nothing of the environment, of a user's folder or of a virtual
environment's start-up files runs, and it is faster. The package is found from this file's own place.
"""

from __future__ import annotations

import gc
import os
import sys


def start() -> int:
    """Run the hook; its exit code: 0, or 75 to refuse a job."""
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.path.insert(0, here)
    sys.dont_write_bytecode = os.geteuid() != 0
    # A hook lives for milliseconds: looking for cycles, here and in every child, only costs (2 ms).
    gc.disable()
    from slurm_guard.engine import hook

    return hook.main(sys.argv[1:])


if __name__ == "__main__":
    # Not sys.exit: taking the interpreter apart costs 3 ms. What the hook prints is flushed by then.
    os._exit(start())
