"""What /proc/meminfo says about the host's memory; see proc_meminfo(5)."""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.outcome import Facts
    from slurm_guard.core.paths import Places

GROUP = "text"

_LARGEST = 64 << 10
_MEMINFO = re.compile(r"([A-Za-z][\w()]{1,40}):\s*(\d{1,18})(?: kB)?\s*")


def read(places: Places, request: Facts) -> dict[str, Any]:
    """`meminfo`: {name: kB, or a count for HugePages_*}; empty where it is missing or unreadable."""
    return {"meminfo": parse_meminfo(_text(places.below("proc/meminfo")))}


def parse_meminfo(text: str) -> dict[str, int]:
    """`MemTotal:  1056431100 kB` and so on → {name: number}; lines in any other form are left out."""
    matches = (_MEMINFO.fullmatch(line) for line in text.split("\n"))
    return {match[1]: int(match[2]) for match in matches if match}


def _text(path: str) -> str:
    """A file in one read (/proc files change between reads); "" where it is missing or unreadable."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        return os.read(descriptor, _LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
