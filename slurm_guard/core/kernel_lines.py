"""Which kernel lines hold words that any user of the node may choose: those about a program of theirs.

A program's name (15 bytes) and the names of its files stand there as they are, line feeds too: they could
forge a fault of the node. Sources: show_signal_msg() and print_vma_addr() of Linux, the warning of execve().
"""

from __future__ import annotations

import re

_LONGEST_NAME = 15

#: `NAME[PID]: segfault at …`, `traps: NAME[PID] general protection fault …`, `process '…' started with …`.
_PROGRAM = re.compile(rf"(?:traps: )?.{{0,{_LONGEST_NAME}}}\[\d{{1,10}}\][: ]|process '", re.DOTALL)


def is_of_a_program(text: str) -> bool:
    """True if a line begins with a program's own name, so that nothing in it proves a fault of the node."""
    return _PROGRAM.match(text) is not None
