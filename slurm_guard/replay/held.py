"""What the replay wanted and did not get, each cause once however often it asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: Later attempts of the same cause belong to it if they follow within this, as in report/actions.py.
_ALIKE_MS = 3_600_000


@dataclass(slots=True)
class Hold:
    """One cause that was held `times` times from `at` until `until` (ms) by `limit`.

    `limit` is the budget's (`nodes`, `partition`, `per_hour`, `shared`, `incident`, `job`, `user`), `observe`
    for the mode, or `stays` for a node that no longer comes back by itself.
    """

    node: str
    at: int
    until: int
    limit: str
    fault: str
    device: str
    why: str
    times: int = 1


class Holds:
    """All of them, in order of time."""

    def __init__(self) -> None:
        self.all: list[Hold] = []
        self._last: dict[tuple[str, str, str, str], Hold] = {}

    def note(self, node: str, at: int, limit: str, why: str, cause: dict[str, Any]) -> None:
        """One attempt of `cause` (`fault`, `device`) that was held."""
        key = (node, limit, cause.get("fault", ""), cause.get("device", ""))
        last = self._last.get(key)
        if last is not None and at - last.until <= _ALIKE_MS:
            last.times, last.until = last.times + 1, at
            return
        self._last[key] = Hold(node, at, at, limit, key[2], key[3], why)
        self.all.append(self._last[key])
