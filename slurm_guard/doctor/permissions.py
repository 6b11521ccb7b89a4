"""Files that hooks trust as root: only root may change them, and only root may read some of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from slurm_guard.doctor.advice import Advice, Topic
from slurm_guard.doctor.ownership import mode_of, open_folder, weak_spot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_guard.doctor.subject import Subject

TOPIC = Topic("files")


def examine(subject: Subject) -> Iterator[Advice]:
    """All advice about owners and modes."""
    places = subject.places
    conf_d = Path(places.etc) / "conf.d"
    trusted = [places.config, *map(str, sorted(conf_d.glob("*.toml"))), places.node_file, places.plan]
    private = [places.var, places.run, places.plan]  # the folders close what lies in them
    advice = [*_changed_by_others(trusted), *_read_by_others(private)]
    if places.node_problem:
        advice.append(TOPIC.bad(places.node_problem, places.node_file, "correct or remove it"))
    yield from advice or [TOPIC.good("configuration, plan and state are root's alone", places.etc)]


def _changed_by_others(paths: list[str]) -> Iterator[Advice]:
    told: set[str] = set()
    for path in paths:
        if not Path(path).exists():
            continue
        weak = weak_spot(path)
        if weak and weak[0] not in told:
            told.add(weak[0])
            yield TOPIC.bad(
                f"{path} decides what root's hooks do, but {weak[0]} {weak[1]}",
                weak[0],
                f"`chown root {weak[0]}` and `chmod go-w {weak[0]}`",
            )


def _read_by_others(paths: list[str]) -> Iterator[Advice]:
    told: set[str] = set()
    for path in paths:
        if not Path(path).exists():
            continue
        weak = open_folder(path)
        if weak and weak[0] not in told:
            told.add(weak[0])
            remedy = f"`chmod go-w {weak[0]}`, or another place in node.json"
            yield TOPIC.bad(f"{path} can be replaced: {weak[0]} {weak[1]}", weak[0], remedy)
        if mode_of(path) & 0o077:
            yield TOPIC.warn(
                f"{path} is open to others (mode {mode_of(path):04o})", path, f"`chmod go= {path}`"
            )
