"""Secrets of the collector: whoever can read them can speak for every node, or listen to all of them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_guard.doctor.advice import Advice, Topic
from slurm_guard.doctor.ownership import open_folder
from slurm_guard.engine.destination import destination
from slurm_guard.engine.signing import SHORTEST_TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_guard.doctor.subject import Subject

TOPIC = Topic("files")
_MUNGE_KEY = "etc/munge/munge.key"


def examine(subject: Subject) -> Iterator[Advice]:
    """All advice about the token, the keys of the certificate and of `sguard collect`, and munge's own."""
    config = subject.reading.config
    wanted = config.collector if config else None
    to = destination(subject.places, subject.plan)
    tokens = {to.token_file} if to and to.token_file else set()
    if wanted and wanted.token_file:
        tokens.add(subject.places.below(wanted.token_file))
    for token in sorted(tokens):
        yield _token(token)
    if wanted and wanted.key and os.path.lexists(subject.reach(wanted.key)):
        yield _closed("the key of the collector's certificate", subject.reach(wanted.key))
    collecting = config.collect.key if config else None
    if collecting and os.path.lexists(subject.places.below(collecting)):
        yield _closed("the key of `sguard collect`", subject.places.below(collecting))
    munge_key = subject.places.below(_MUNGE_KEY)
    if to and not tokens and os.path.lexists(munge_key):
        yield _closed("munge's key", munge_key)


def _token(path: str) -> Advice:
    if not os.path.lexists(path):
        remedy = (
            "copy it from the other hosts (mode 0600), or make it with `head -c 32 /dev/urandom | base64`"
        )
        return TOPIC.bad(f"the token file {path} is not there: nothing can be sent or taken", path, remedy)
    found = _closed("the token file", path)
    size = Path(path).stat().st_size
    if found.status == "pass" and size < SHORTEST_TOKEN:
        what = f"the token file {path} holds {size} bytes: it can be guessed"
        return TOPIC.bad(
            what, path, f"write a random text of {SHORTEST_TOKEN} bytes or more into it, on every host"
        )
    return found


def _closed(what: str, path: str) -> Advice:
    """Whether a secret is its owner's alone."""
    status = Path(path).stat()
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        return TOPIC.bad(f"{what} {path} is no regular file", path, "put a plain file there, mode 0600")
    if mode & 0o077:
        who = "everybody" if mode & 0o007 else f"group {status.st_gid}"
        remedy = f"`chmod 0600 {path}`; if somebody may have read it, make a new one for every host"
        return TOPIC.bad(f"{what} {path} is open to {who} (mode {mode:04o})", path, remedy)
    weak = open_folder(path)
    if weak:
        folder, why = weak
        remedy = f"`chmod go-w {folder}`, and `chown root {folder}` if it is not root's"
        return TOPIC.bad(f"{what} {path} can be replaced: {folder} {why}", folder, remedy)
    return TOPIC.good(f"{what} is its owner's alone", path)
