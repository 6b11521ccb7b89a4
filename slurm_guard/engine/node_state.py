"""What the runs of this boot know of each other: counters, kernel-log cursor, children left behind.

Lies in the run folder (gone after a boot). Prologs and epilogs of different jobs run at the same time: each
reads without a lock and merges its own changes under a lock that is held for a few milliseconds.
"""

from __future__ import annotations

from slurm_guard.engine import child, files
from slurm_guard.engine.reading import Hang

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.paths import Places

VERSION = 1


class NodeState:
    """The state of this boot.

    `counters`: {"metric device": [value, monotonic seconds]}. `seen`: {"fault device": [1, 0, …]}, newest
    last. `hung_before`: devices that hung in the previous run. `kmsg_last` is None before the first run.
    """

    def __init__(self, boot_id: str, content: dict[str, Any] | None = None) -> None:
        content = content or {}
        same_boot = content.get("version") == VERSION and content.get("boot_id") == boot_id
        kept = content if same_boot else {}
        self.boot_id = boot_id
        self.known = same_boot
        self.kmsg_last: int | None = kept.get("kmsg_last")
        self.counters: dict[str, list[float]] = dict(kept.get("counters", {}))
        seen = kept.get("seen", {})
        self.seen: dict[str, list[int]] = {
            name: runs for name, runs in seen.items() if isinstance(runs, list)
        }
        self.hung_before: list[str] = list(kept.get("hung_before", []))
        self.left_behind: list[dict[str, Any]] = [one for one in kept.get("left_behind", []) if _is_left(one)]
        self.dropped: int = kept.get("dropped", 0)

    def as_dict(self) -> dict[str, Any]:
        """The state as it lies on disk."""
        return {
            "version": VERSION,
            "boot_id": self.boot_id,
            "kmsg_last": self.kmsg_last,
            "counters": self.counters,
            "seen": self.seen,
            "hung_before": self.hung_before,
            "left_behind": self.left_behind,
            "dropped": self.dropped,
        }

    def still_hanging(self) -> list[Hang]:
        """Children of earlier runs that are still there: their sources are not touched again."""
        alive = [one for one in self.left_behind if child.lives(one["pid"], one["start_time"])]
        return [Hang(one["probe"], one["key"], one["pid"], confirmed=True, still=True) for one in alive]

    def runs_seen(self) -> dict[tuple[str, str], list[int]]:
        """Whether each of the last runs saw a (fault, device), newest last."""
        found = {}
        for name, runs in self.seen.items():
            fault, _, device = name.partition(" ")
            found[fault, device] = runs
        return found

    def note_seen(self, seen: set[str], judged: set[str], of: int) -> None:
        """Add this run to the history of every fault whose check was judged in it."""
        for name in set(self.seen) | seen:
            if name.partition(" ")[0].partition(".")[0] not in judged and name not in seen:
                continue
            runs = [*self.seen.get(name, []), int(name in seen)][-of:]
            self.seen[name] = runs
            if not any(runs):
                del self.seen[name]


def _is_left(one: Any) -> bool:
    """True for a child as `save` writes one; an entry that is none must not cost the run."""
    kinds = {"probe": str, "key": str, "pid": int, "start_time": int}
    return isinstance(one, dict) and all(isinstance(one.get(name), kind) for name, kind in kinds.items())


def load(places: Places, boot_id: str) -> NodeState:
    """The state of this boot; empty at the first run, after a boot, or where the file is torn."""
    return NodeState(boot_id, _read(places))


def _read(places: Places) -> dict[str, Any] | None:
    content: dict[str, Any] | None = files.read_json(places.state)
    shapes = {"counters": dict, "seen": dict, "hung_before": list, "left_behind": list}
    if content is None or any(not isinstance(content.get(k), kind) for k, kind in shapes.items()):
        return None
    if type(content.get("dropped", 0)) is not int or type(content.get("kmsg_last")) not in (int, type(None)):
        return None
    return content


def save(places: Places, mine: NodeState, hangs: list[Hang]) -> bool:
    """Merge this run's changes into the file; False if the lock could not be had (nothing is saved then)."""
    with files.locked(places.lock("state")) as held:
        if not held:
            return False
        theirs = NodeState(mine.boot_id, _read(places))
        if theirs.kmsg_last is not None:
            mine.kmsg_last = max(theirs.kmsg_last, mine.kmsg_last or 0)
        mine.counters = {**theirs.counters, **mine.counters}
        left = {(one["pid"], one["start_time"]): one for one in theirs.left_behind}
        for hang in hangs:
            if hang.confirmed and hang.start_time is not None:
                left[hang.pid, hang.start_time] = {
                    "probe": hang.probe,
                    "key": hang.key,
                    "pid": hang.pid,
                    "start_time": hang.start_time,
                }
        mine.left_behind = [one for (pid, started), one in left.items() if child.lives(pid, started)]
        mine.hung_before = sorted({hang.key or hang.probe for hang in hangs})
        untold = max(0, theirs.dropped - mine.dropped)  # this run's record tells of its own
        files.write_json(places.state, {**mine.as_dict(), "dropped": untold})
        return True


def note_dropped(places: Places, boot_id: str, count: int) -> None:
    """Remember that records were lost to the spool's bounds; the next record tells."""
    with files.locked(places.lock("state")) as held:
        if held:
            state = NodeState(boot_id, _read(places))
            state.dropped += count
            files.write_json(places.state, state.as_dict())
