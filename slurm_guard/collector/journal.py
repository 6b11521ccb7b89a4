"""What the collector says on stderr, where systemd keeps it: few lines, however many requests are refused."""

from __future__ import annotations

import sys
import time

from slurm_guard.collector.answers import printable

_LINES, _WITHIN_S = 20, 10.0


class Journal:
    """Lines for an admin, at most twenty in ten seconds; what was left out is counted in the next line."""

    def __init__(self) -> None:
        self._since = 0.0
        self._said = self._left_out = 0

    def say(self, text: str) -> None:
        """One line."""
        now = time.monotonic()
        if now - self._since > _WITHIN_S:
            self._since, self._said = now, 0
        if self._said >= _LINES:
            self._left_out += 1
            return
        self._said += 1
        more = f" ({self._left_out} more lines were left out)" if self._left_out else ""
        self._left_out = 0
        print(f"sguard serve: {printable(text, 1000)}{more}", file=sys.stderr, flush=True)
