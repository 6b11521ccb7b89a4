"""Runs a hook as its shim does and notes which modules it and its forked children had loaded at their end.

python -I -S record_modules.py FOLDER BOOT HOOK [--root DIR]      one file per process in FOLDER
"""

from __future__ import annotations

import os
import sys

before = set(sys.modules)
folder, boot = sys.argv[1:3]
leave = os._exit


def note_modules() -> None:
    """Write the names of all modules that were not there when the interpreter started."""
    file = os.open(f"{folder}/{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(file, "\n".join(sorted(set(sys.modules) - before)).encode())
    os.close(file)


def note_and_leave(status: int) -> None:
    """What forked children call instead of os._exit."""
    try:
        note_modules()
    finally:
        leave(status)


os._exit = note_and_leave  # type: ignore[assignment]
sys.argv = [boot, *sys.argv[3:]]
source = os.open(boot, os.O_RDONLY)
code = compile(os.read(source, 1 << 20), boot, "exec")
os.close(source)
try:
    exec(code, {"__name__": "__main__", "__file__": boot})  # what `python boot.py` does
finally:
    note_modules()
