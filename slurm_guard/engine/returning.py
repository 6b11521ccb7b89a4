"""When a drained node comes back, and when it no longer does: clean for long enough, not too often, and
watched afterwards.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

#: Returns that are remembered; more than any flap rule asks for.
_MOST = 32


class Returning:
    """What a node remembers of its returns; times are unix seconds.

    `clean_since`: since when every counted run was clean, None while a fault is open; `returns`: what we
    did, [{at, faults}], oldest first, with what each was drained for; `stays`: why the node no longer comes
    back by itself, empty if it does.
    """

    def __init__(self, content: dict[str, Any] | None = None) -> None:
        content = content if isinstance(content, dict) else {}
        clean_since, returns, stays = (content.get(name) for name in ("clean_since", "returns", "stays"))
        self.clean_since: float | None = clean_since if isinstance(clean_since, (int, float)) else None
        self.returns: list[dict[str, Any]] = [
            one for one in (returns if isinstance(returns, list) else []) if _is_return(one)
        ]
        self.stays: str = stays if isinstance(stays, str) else ""

    def as_dict(self) -> dict[str, Any]:
        """The memory as it lies on disk; empty where there is nothing to remember."""
        found = {"clean_since": self.clean_since, "returns": self.returns, "stays": self.stays}
        return {name: value for name, value in found.items() if value}

    def note_run(self, is_clean: bool, counts: bool, now: float) -> None:
        """Take in one run; one that does not count neither begins nor ends a time of clean runs."""
        if not is_clean:
            self.clean_since = None
        elif counts and (self.clean_since is None or self.clean_since > now):  # or the clock was put back
            self.clean_since = now

    def is_clean_for(self, seconds: float, now: float) -> bool:
        """True if the node has been clean for so long."""
        return self.clean_since is not None and now - self.clean_since >= seconds

    def note_return(self, faults: Iterable[str], now: float) -> None:
        """We put the node back in service; `faults` (`fault device`) is what it had been drained for."""
        self.returns = [*self.returns[-_MOST + 1 :], {"at": now, "faults": sorted(set(faults))}]

    def relapses(self, faults: Iterable[str], watch_s: float, now: float) -> list[str]:
        """Those faults for which the node was drained before a return that is still being watched."""
        watched = {
            fault for one in self.returns if 0 <= now - one["at"] <= watch_s for fault in one["faults"]
        }
        return sorted(watched & set(faults))

    def stay_after_relapse(self, faults: list[str], now: float) -> None:
        """From now on only a person puts this node back."""
        age = now - self.returns[-1]["at"]
        self.stays = f"{', '.join(faults)} came back {age:.0f} s after the node's return"

    def stay_if_it_flaps(self, flaps: float, window_s: float, now: float) -> None:
        """A node that has returned `flaps` times within the window returns no more; 0 switches that off."""
        lately = [one for one in self.returns if 0 <= now - one["at"] <= window_s]
        if flaps and len(lately) >= flaps and not self.stays:
            self.stays = f"the node has returned {len(lately)} times within {window_s / 3600:g} h"

    def forget_devices(self, devices: set[str]) -> None:
        """These were swapped: what the node returned from before concerned other cards."""
        for one in self.returns if devices else ():
            one["faults"] = [fault for fault in one["faults"] if fault.partition(" ")[2] not in devices]

    def forget(self) -> None:
        """A person's word that the node is good is a new beginning."""
        self.returns, self.stays, self.clean_since = [], "", None


def _is_return(one: Any) -> bool:
    return (
        isinstance(one, dict)
        and isinstance(one.get("at"), (int, float))
        and isinstance(one.get("faults"), list)
        and all(isinstance(fault, str) for fault in one["faults"])
    )
