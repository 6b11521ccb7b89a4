"""What the last shipment came to: when the next one may be tried, and as which node. Of this boot.

Times are monotonic, so that no clock that jumps stops the shipping; one of another boot is told by its size.
"""

from __future__ import annotations

import os
import time

from slurm_guard.engine import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.paths import Places

#: The first pause after a failure, doubled with each further one up to the longest; all with jitter.
FIRST_S, LONGEST_S = 15.0, 900.0
#: A collector may ask for more patience than that, within reason.
LONGEST_ASKED_S = 3600.0
#: A plan that was not taken is not asked for again before this.
PLAN_AGAIN_S = 600.0


class ShipState:
    """What is kept between shipments.

    `node` shipped last; `tries` failures in a row, the last one's `why`; before `next` no hook tries; `last`
    is when a shipment began; `plan` was not taken and is not asked for again before `plan_next`.
    """

    __slots__ = ("last", "next", "node", "plan", "plan_next", "tries", "why")

    def __init__(self, content: dict[str, Any] | None = None) -> None:
        content = content or {}
        self.node = _text(content.get("node"))
        self.why = _text(content.get("why"))
        self.plan = _text(content.get("plan"))
        self.tries = int(_number(content.get("tries")))
        self.next = _number(content.get("next"))
        self.last = _number(content.get("last"))
        self.plan_next = _number(content.get("plan_next"))

    def pause_s(self) -> float:
        """Seconds that a hook's shipper still leaves the collector alone; 0: it may be asked."""
        left = self.next - time.monotonic()
        return left if 0 < left <= LONGEST_ASKED_S * 2 else 0.0

    def gap_s(self, gap: float) -> float:
        """Seconds until `gap` seconds after the last shipment began."""
        left = self.last + gap - time.monotonic()
        return left if 0 < left <= gap else 0.0

    def wants_plan(self, announced: str) -> bool:
        """False while a plan is not asked for again because it was not taken."""
        return announced != self.plan or not 0 < self.plan_next - time.monotonic() <= PLAN_AGAIN_S

    def failed(self, why: str, asked_s: float | None) -> None:
        """Note a failure; the next try comes later each time, and never of all nodes at once."""
        import random

        self.tries = min(self.tries + 1, 1000)
        self.why = why[:500]
        pause = min(LONGEST_S, FIRST_S * 2 ** min(self.tries - 1, 16))
        if asked_s is not None:
            pause = max(pause / 2, min(max(asked_s, 0.0), LONGEST_ASKED_S))
        self.next = time.monotonic() + pause * random.uniform(1.0, 1.5)  # noqa: S311 - spreads load

    def succeeded(self) -> None:
        """Note that the collector answered as it should."""
        self.tries, self.why, self.next = 0, "", 0.0

    def plan_refused(self, announced: str) -> None:
        """Note that a plan was not taken."""
        self.plan, self.plan_next = announced, time.monotonic() + PLAN_AGAIN_S


def path(places: Places) -> str:
    """Where the state lies."""
    return os.path.join(places.run, "ship.json")


def load(places: Places) -> ShipState:
    """The state; that of a node which never shipped where there is none or it is torn."""
    return ShipState(files.read_json(path(places)))


def save(places: Places, state: ShipState) -> None:
    """Keep the state; where that is not possible (disk full), the next run only tries sooner."""
    try:
        files.make_folder(places.run)
        files.write_json(path(places), {name: getattr(state, name) for name in ShipState.__slots__})
    except OSError:
        pass


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> float:
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e12
    return float(value) if fits else 0.0
