"""This node's open faults, its clean runs, and what we drained it for. Survives reboots: a reboot is proof
for some faults and for none of the others.
"""

from __future__ import annotations

from slurm_guard.core.outcome import FAIL, TIMEOUT
from slurm_guard.core.policy import DRAIN_TIERS
from slurm_guard.engine import clock, files
from slurm_guard.engine.returning import Returning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.outcome import Finding
    from slurm_guard.core.paths import Places

VERSION = 1
#: Refusals older than this cannot explain a `Prolog error` (law 3 asks for 10 s).
_REFUSALS_KEPT_S = 3600.0


class OpenFaults:
    """Faults of a drain tier that were seen and not yet proven gone.

    `drained` is what we wrote to Slurm (reason, fault, device, at, boot_id), or None; `asked` is the same for
    a drain that was about to be written: whoever was killed in between has written it or not. `refusals` are
    the times (unix seconds) of our recorded refusals; `returning` is what the node remembers of its returns.
    """

    def __init__(self, content: dict[str, Any] | None = None) -> None:
        content = content if content and content.get("version") == VERSION else {}
        # What is not as we write it is left out: else every run would fail on it until somebody looks.
        known = dict(content.get("open") or {})
        self.open: dict[str, dict[str, Any]] = {name: one for name, one in known.items() if _is_fault(one)}
        clean_runs = content.get("clean_runs")
        self.clean_runs: int = clean_runs if type(clean_runs) is int else 0
        self.drained: dict[str, Any] | None = _claimed(content.get("drained"))
        self.asked: dict[str, Any] | None = _claimed(content.get("asked"))
        refusals = list(content.get("refusals") or [])
        self.refusals: list[float] = [at for at in refusals if type(at) in (int, float)]
        self.returning = Returning(content.get("returning"))

    def as_dict(self) -> dict[str, Any]:
        """The faults as they lie on disk."""
        return {
            "version": VERSION,
            "open": self.open,
            "clean_runs": self.clean_runs,
            "drained": self.drained,
            "asked": self.asked,
            "refusals": self.refusals,
            "returning": self.returning.as_dict(),
        }

    def note_refusal(self, now: float) -> None:
        """Record that we refused a job, before Slurm can act on it."""
        self.refusals = [at for at in self.refusals if now - at < _REFUSALS_KEPT_S] + [now]

    def take_back_refusal(self, at: float) -> None:
        """The job was let through after all: a `Prolog error` of now would be somebody else's."""
        self.refusals = [one for one in self.refusals if one != at]

    @property
    def claim(self) -> dict[str, Any] | None:
        """The drain that may be ours to take back."""
        return self.drained or self.asked

    def end_claim(self) -> None:
        """The node is in service again, or somebody else's."""
        self.drained = self.asked = None

    def waiting_events(self, boot_id: str) -> dict[str, dict[str, Any]]:
        """Open events of this boot for which the node was never drained.

        Once it was, an admin who resumes the node has the last word: the same event drains no second time.
        """
        return {
            name: entry
            for name, entry in self.open.items()
            if entry.get("event") and not entry.get("acted") and entry.get("boot_id") == boot_id
        }

    def update(
        self,
        findings: list[Finding],
        judged: set[str],
        tiers: dict[tuple[str, str], str],
        boot_id: str,
        at: str,
        counts: bool,
    ) -> None:
        """Take in one run: open what it saw, close what it proved gone, count clean runs.

        `judged` are the checks that could judge all they look at; `tiers` are those that the policy gave each
        (fault, device) in this run. `counts` is False for runs that do not count as clean ones (only
        healthchecks do: K prologs in a minute prove nothing).
        """
        seen = set()
        for finding in findings:
            tier = tiers.get((finding.fault, finding.device or ""), "")
            if finding.status in (FAIL, TIMEOUT) and tier in DRAIN_TIERS:
                seen.add(self._open(finding, tier, boot_id, at))
        for name, fault in list(self.open.items()):
            if name not in seen and fault["check"] in judged and _proven_gone(fault, boot_id):
                del self.open[name]
        if self.open:
            self.clean_runs = 0
        elif counts:
            self.clean_runs += 1

    def note_whose(self, jobs: list[int], users: list[int]) -> None:
        """Remember for each fault that is new whose jobs were there: it stays theirs when they are gone."""
        for entry in self.open.values():
            if "jobs" not in entry:
                entry.update(jobs=jobs, users=users)

    def whose(
        self, fault: str, device: str, jobs: list[int], users: list[int]
    ) -> tuple[list[int], list[int]]:
        """For whom a drain for a fault is: the jobs and users of now, and those of its first sight."""
        entry = self.open.get(f"{fault} {device}".strip()) or {}
        both = ((jobs, entry.get("jobs")), (users, entry.get("users")))
        first, second = (
            sorted({*now, *(one for one in then or () if isinstance(one, int))}) for now, then in both
        )
        return first, second

    def _open(self, finding: Finding, tier: str, boot_id: str, at: str) -> str:
        name = f"{finding.fault} {finding.device or ''}".strip()
        entry = self.open.setdefault(name, {"first_seen": at, "runs": 0})
        entry.update(
            check=finding.check,
            fault=finding.fault,
            device=finding.device or "",
            tier=tier,
            event=bool(finding.event),
            scope=finding.scope or "",
            boot_id=boot_id,
            last_seen=at,
            runs=entry["runs"] + 1,
        )
        return name


def claim(request: dict[str, Any]) -> dict[str, Any]:
    """What stands on record of a drain: see `OpenFaults.drained`."""
    found = {name: request[name] for name in ("reason", "fault", "device", "boot_id")}
    return {**found, "check": request["fault"].partition(".")[0], "at": clock.iso()}


def _is_fault(one: Any) -> bool:
    return isinstance(one, dict) and isinstance(one.get("check"), str) and type(one.get("runs")) is int


def _claimed(one: Any) -> dict[str, Any] | None:
    return one if isinstance(one, dict) and isinstance(one.get("reason"), str) else None


def _proven_gone(fault: dict[str, Any], boot_id: str) -> bool:
    """A state fault is gone when it is not seen; an event only when the machine was booted since."""
    return not fault.get("event") or fault.get("boot_id") != boot_id


def load(places: Places) -> OpenFaults:
    """The open faults of this node; none where the file is absent or torn."""
    content = files.read_json(places.faults)
    try:
        return OpenFaults(content)
    except (TypeError, ValueError):
        return OpenFaults()


def change(places: Places, apply: Any) -> OpenFaults | None:
    """Read, change and write under the lock; None if the lock could not be had.

    `apply(faults)` changes the object it is given.
    """
    with files.locked(places.lock("faults"), patience_s=1.0) as held:
        if not held:
            return None
        found = load(places)
        apply(found)
        files.make_folder(places.var)
        files.write_json(places.faults, found.as_dict())
        return found
