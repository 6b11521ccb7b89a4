"""Since when each fault of this node has been seen, and how often it began: for rules that ask for it.

Survives reboots. Kept only where the plan has a rule with `minimum_s` or `escalate`.
"""

from __future__ import annotations

import time

from slurm_guard.engine import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from slurm_guard.core.outcome import Finding
    from slurm_guard.core.paths import Places

VERSION = 1
#: Beginnings that are kept of a fault, and for how long; rules look back a day or two, at most this far.
_MOST, OLDEST_S = 32, 30 * 86400.0
#: Events that are known again: the healthcheck and then the job's epilog see the same ones.
_MOST_EVENTS = 16
#: Faults that are kept: a node with more has other worries.
_MOST_FAULTS = 256
#: An event that is told without its own time is taken for the one before when it comes sooner than this: the
#: healthcheck and then the job's epilog see the same growth.
_SAME_EVENT_S = 600.0


class Sightings:
    """`faults`: {"fault device": {since, last, began, events}}; times are unix seconds.

    `since` is None while the fault is not seen; `began` are its beginnings, oldest first; `events` are the
    own times of its last events, as their findings tell them.
    """

    def __init__(self, content: dict[str, Any] | None = None) -> None:
        faults = content.get("faults") if content and content.get("version") == VERSION else None
        kept = faults if isinstance(faults, dict) else {}
        self.faults: dict[str, dict[str, Any]] = {n: e for n, e in kept.items() if isinstance(e, dict)}

    def as_dict(self) -> dict[str, Any]:
        """The sightings as they lie on disk."""
        return {"version": VERSION, "faults": self.faults}

    def note(self, findings: list[Finding], judged: set[str], boot_id: str, now: float) -> None:
        """Take in one run. `judged` are the checks that could judge all they look at."""
        seen = set()
        for finding in findings:
            if finding.status in ("fail", "timeout"):
                seen.add(self._see(finding, boot_id, now))
        for name, entry in list(self.faults.items()):
            if name not in seen and name.partition(" ")[0].partition(".")[0] in judged:
                entry["since"] = None
            if now - entry["last"] > OLDEST_S:
                del self.faults[name]
        for name in sorted(self.faults, key=lambda one: self.faults[one]["last"])[:-_MOST_FAULTS]:
            del self.faults[name]

    def _see(self, finding: Finding, boot_id: str, now: float) -> str:
        name = f"{finding.fault} {finding.device or ''}".strip()
        entry = self.faults.setdefault(name, {"since": None, "last": 0.0, "began": [], "events": []})
        event = f"{boot_id} {finding.since}" if finding.event and finding.since else ""
        if _is_new(entry, finding, event, now):
            young = [at for at in entry["began"] if 0 <= now - at <= OLDEST_S]
            entry["began"] = [*young[-_MOST + 1 :], now]
        entry["since"] = now if entry["since"] is None else min(entry["since"], now)
        entry["last"] = now
        if event and event not in entry["events"]:
            entry["events"] = [*entry["events"][-_MOST_EVENTS + 1 :], event]
        return name

    def forget(self, devices: set[str]) -> None:
        """What is on record of these concerned other cards."""
        for name in [name for name in self.faults if name.partition(" ")[2] in devices]:
            del self.faults[name]

    def ages(self, now: float) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], list[float]]]:
        """`lasting` and `began` for the policy's history, in seconds."""
        lasting, began = {}, {}
        for name, entry in self.faults.items():
            fault, _, device = name.partition(" ")
            lasting[fault, device] = 0.0 if entry["since"] is None else max(0.0, now - entry["since"])
            began[fault, device] = [max(0.0, now - at) for at in entry["began"]]
        return lasting, began


def _is_new(entry: dict[str, Any], finding: Finding, event: str, now: float) -> bool:
    """True if this is another beginning, not the one that is on record seen once more."""
    if not finding.event:
        return entry["since"] is None
    if event:
        return event not in entry["events"]
    return bool(now - entry["last"] > _SAME_EVENT_S)


def load(places: Places) -> Sightings:
    """What is on record; nothing where the file is absent or torn."""
    try:
        return _checked(files.read_json(places.sightings))
    except (AttributeError, LookupError, TypeError, ValueError):
        return Sightings()


def _checked(content: dict[str, Any] | None) -> Sightings:
    found = Sightings(content)
    found.ages(0.0)
    for entry in found.faults.values():
        entry["last"] + 0.0, [*entry["events"]]
    return found


def with_run(places: Places, findings: list[Finding], judged: set[str], boot_id: str) -> Sightings:
    """What is on record, this run's findings included; nothing is written."""
    found = load(places)
    found.note(findings, judged, boot_id, time.time())
    return found


def save(
    places: Places, findings: list[Finding], judged: set[str], boot_id: str, gone: Iterable[str] = ()
) -> None:
    """Take one run into the file, under its lock; `gone` are devices that were swapped. Raises OSError."""
    with files.locked(places.lock("sightings"), patience_s=1.0) as held:
        if not held:
            raise OSError("the lock of the sightings could not be had")
        found = load(places)
        before = repr(found.faults)
        found.forget(set(gone))
        found.note(findings, judged, boot_id, time.time())
        if repr(found.faults) != before:
            files.make_folder(places.var)
            files.write_json(places.sightings, found.as_dict())
