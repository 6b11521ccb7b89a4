"""What users need to ask the collector for the reports on their jobs: `client.json`, and what it names."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_guard.config import client
from slurm_guard.core.errors import SetupError
from slurm_guard.doctor.advice import Advice, Topic
from slurm_guard.engine.destination import destination

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_guard.doctor.subject import Subject

TOPIC = Topic("files")
_PRINT = "`sguard config client` on the collector's host prints it; mode 0644"


def examine(subject: Subject) -> Iterator[Advice]:
    """All advice about users' way to the collector; nothing where there is no collector."""
    path = Path(client.path_of(subject.places))
    to = destination(subject.places, subject.plan)
    if not path.exists():
        if to is not None:
            yield TOPIC.skip(f"users of this host cannot ask the collector for reports: no {path}")
        return
    try:
        found = client.read(subject.places)
    except SetupError as error:
        yield TOPIC.warn(f"users cannot ask the collector: {error}", str(path), _PRINT)
        return
    if found is None:
        return
    if to is not None and found[0].url != to.url:
        what = f"users are sent to {found[0].url}, this host's records go to {to.url}"
        yield TOPIC.warn(what, str(path), f"put the same file on every host: {_PRINT}")
    closed = [place for place in _needed(path, found[0].ca_file) if not _is_open(place)]
    for place in closed:
        yield TOPIC.warn(f"users cannot read {place}", str(place), f"`chmod {_mode(place)} {place}`")
    if not closed:
        yield TOPIC.good("users find the collector", str(path))


def _needed(path: Path, ca_file: str) -> list[Path]:
    return [path.parent, path, *([Path(ca_file)] if ca_file else [])]


def _is_open(place: Path) -> bool:
    try:
        mode = place.stat().st_mode
    except OSError:
        return False
    return bool(mode & (stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH))


def _mode(place: Path) -> str:
    return "755" if place.is_dir() else "644"
