"""This node's own state: kill switch, spool, requests that wait, children left behind, the system log."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_guard.doctor.advice import Advice, Topic
from slurm_guard.engine import child, files, spool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_guard.doctor.subject import Subject

TOPIC = Topic("node")
_DISK_DEADLINE_S = 3.0
#: From this share of its bounds on the spool is worth a look.
_NEARLY_FULL = 0.8


def examine(subject: Subject) -> Iterator[Advice]:
    """All advice about the node's own files and processes."""
    yield from _kill_switch(subject)
    yield from _writable(subject)
    yield from _bounds(subject)
    yield from _requests(subject)
    yield from _left_behind(subject)
    yield from _syslog(subject)


def _kill_switch(subject: Subject) -> Iterator[Advice]:
    found = [path for path in subject.places.kill_switches if os.path.lexists(path)]
    for path in found:
        yield TOPIC.warn("the kill switch is set: hooks do nothing on this node", path, f"`rm {path}`")
    if not found:
        yield TOPIC.good("no kill switch is set")


def _writable(subject: Subject) -> Iterator[Advice]:
    """One file is written, synced and removed in a child: a sick disk must not hang the doctor."""
    for path, what in ((subject.places.spool, "records"), (subject.places.run, "state of this boot")):
        if not Path(path).is_dir():
            yield TOPIC.skip(f"{what}: {path} is not there yet; the first run makes it", path)
            continue
        outcome = child.bounded(lambda path=path: _try_folder(path), _DISK_DEADLINE_S)  # type: ignore[misc]
        if outcome == "done":
            yield TOPIC.good(f"{what}: {path} can be written to", path)
        else:
            why = "hangs" if outcome == "hung" else "cannot be written to"
            yield TOPIC.bad(
                f"{what}: {path} {why}: runs of this node leave nothing behind",
                path,
                "run as root; else look at the disk (`df`, `dmesg`), or name another place in node.json",
            )


def _try_folder(path: str) -> None:
    probe = Path(path) / f".doctor.{os.getpid()}"
    files.write_atomic(str(probe), b"x" * 4096)
    files.remove(str(probe))


def _bounds(subject: Subject) -> Iterator[Advice]:
    limits, records = subject.plan.spool, spool.paths(subject.places)
    size = sum(_size(path) for path in records)
    share = max(len(records) / limits["files"], size / limits["bytes"])
    wait = "1 record waits" if len(records) == 1 else f"{len(records)} records wait"
    text = f"{wait}, {size / 2**20:.1f} MiB, {share:.0%} of the bounds"
    if share >= _NEARLY_FULL:
        yield TOPIC.warn(
            f"{text}: soon the oldest are dropped",
            subject.places.spool,
            "`sguard ingest` them where the store is, and see why nobody does",
        )
    else:
        yield TOPIC.good(text, subject.places.spool)


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def _requests(subject: Subject) -> Iterator[Advice]:
    """Drains and resumes that could not be carried out yet."""
    folder = Path(subject.places.requests)
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        request = files.read_json(str(path)) or {}
        minutes = max(time.time() - float(request.get("created", time.time())), 0) / 60
        what = " ".join(str(request.get(name, "")) for name in ("kind", "fault", "device")).strip()
        yield TOPIC.warn(
            f"a request waits for {minutes:.0f} min: {what or path.name}",
            str(path),
            "see whether the controller answers (below); the next run carries it on, after 30 min it expires",
        )


def _left_behind(subject: Subject) -> Iterator[Advice]:
    state = files.read_json(subject.places.state) or {}
    for one in alive(state.get("left_behind")):
        _, channel = child.describe(one["pid"])
        place = f" in {channel}" if channel else ""
        yield TOPIC.warn(
            f"process {one['pid']} still hangs{place}: {one.get('probe')} {one.get('key', '')} is left alone",
            f"/proc/{one['pid']}",
            "repair what hangs (server, driver); the process ends by itself then, or with a reboot",
        )
    if state.get("dropped"):
        yield TOPIC.warn(
            f"records were dropped: {state['dropped']}",
            subject.places.spool,
            "raise [spool], or ingest more often",
        )


def alive(entries: Any) -> list[dict[str, Any]]:
    """Those children of earlier runs that are still the same process."""
    found = [one for one in entries if isinstance(one, dict)] if isinstance(entries, list) else []
    return [
        one
        for one in found
        if isinstance(one.get("pid"), int) and child.start_time(one["pid"]) == one.get("start_time")
    ]


def _syslog(subject: Subject) -> Iterator[Advice]:
    path = subject.places.syslog
    if Path(path).is_socket():
        yield TOPIC.good("the system log takes messages", path)
    else:
        yield TOPIC.warn(
            "no system log: nobody hears of what goes wrong in hooks", path, "start journald or rsyslog"
        )
