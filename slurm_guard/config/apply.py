"""Compiles the configuration and puts the plan in place; nothing is written when anything is wrong."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_guard.config import client, load, newcomers
from slurm_guard.config import host as host_module
from slurm_guard.config.changes import describe_changes
from slurm_guard.config.compile import compile_bundle
from slurm_guard.core import plan
from slurm_guard.core.errors import ConfigError, SetupError
from slurm_guard.engine import files

if TYPE_CHECKING:
    from slurm_guard.core.paths import Places


class Applied:
    """What `apply` did: the new bundle, the hash before it (empty for none), the changes in words.

    `observed` are the checks that are new, with the time (unix seconds) until which they only observe.
    """

    def __init__(
        self, path: str, bundle: dict[str, Any], previous: dict[str, Any] | None, now: float
    ) -> None:
        self.path = path
        self.bundle = bundle
        self.previous_hash: str = (previous or {}).get("hash", "")
        self.changes = describe_changes(previous, bundle)
        self.observed = plan.newcomers(bundle, now)
        self.newcomers = list(newcomers.describe(previous, bundle, now))
        self.notes: list[str] = []

    @property
    def changed(self) -> bool:
        """False if the plan that was there says the same."""
        return bool(self.previous_hash != self.bundle["hash"])

    def as_dict(self) -> dict[str, Any]:
        """The JSON answer of `sguard config apply`."""
        return {
            "plan": self.path,
            "hash": self.bundle["hash"],
            "previous_hash": self.previous_hash or None,
            "changed": self.changed,
            "nodes": len(self.bundle["nodes"]) - count_strangers(self.bundle),
            "nodes_without_class": count_strangers(self.bundle),
            "classes": count_classes(self.bundle),
            "changes": self.changes,
            "new_checks": {name: int(until) for name, until in self.observed.items()},
            "notes": self.notes,
        }


def apply(places: Places, now: float | None = None, *, approve_new: bool = False) -> Applied:
    """Compile the configuration below a root and write the plan.

    The plan before is kept as `plan.json.previous` when the content changes. A check that it did not have is
    only observed at first, unless an admin approves it. Raises ConfigError with every problem of the
    configuration, or SetupError if the folder cannot be written.
    """
    reading = load.read(places)
    config = load.require(reading)
    host = host_module.look(places, config)
    load.check_partitions(reading, host.partitions)
    load.require(reading)
    built_at = int(time.time() if now is None else now)
    bundle = compile_bundle(config, host, reading.catalogue, built_at)
    previous = read_bundle(places.plan)
    # A plan that was damaged since is no reason to take every check for approved.
    before = previous or read_bundle(f"{places.plan}.previous")
    bundle["check_since"] = newcomers.since(before, bundle, built_at, approve=approve_new)
    bundle["hash"] = plan.digest(bundle)
    applied = Applied(places.plan, bundle, previous, built_at)
    applied.notes = [*reading.notes, *host.notes, *([places.node_problem] if places.node_problem else [])]
    _write(places, encode(bundle), keep_previous=applied.changed)
    applied.notes += client.write(places, config.collector)
    return applied


def encode(bundle: dict[str, Any]) -> bytes:
    """The bundle as it lies on disk. Raises ConfigError if the hooks would refuse it for its size."""
    data = plan.encode(bundle)
    if len(data) > plan.LARGEST:
        raise ConfigError(
            f"the compiled plan has {len(data)} bytes; expected at most {plan.LARGEST}: fewer mode rules"
        )
    return data


def read_bundle(path: str) -> dict[str, Any] | None:
    """The bundle that is in place, or None if there is none or it is not one that hooks would take."""
    try:
        with Path(path).open("rb") as file:
            raw = file.read(plan.LARGEST + 1)
        bundle = json.loads(raw)
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(bundle, dict) or not plan.is_whole(raw, bundle):
        return None
    return bundle if str(bundle.get("schema")).partition(".")[0] == str(plan.MAJOR) else None


def count_classes(bundle: dict[str, Any]) -> int:
    """How many node classes have nodes in a bundle."""
    return len({profile.get("class") for profile in bundle.get("profiles", []) if profile.get("class")})


def count_strangers(bundle: dict[str, Any]) -> int:
    """How many nodes of a bundle are there for a mode rule alone, and in no class."""
    profiles = bundle.get("profiles", [])
    return sum(not profiles[index].get("class") for index in bundle.get("nodes", {}).values())


def _write(places: Places, data: bytes, keep_previous: bool) -> None:
    try:
        files.make_folder(places.var)
        if keep_previous and os.path.lexists(places.plan):
            _keep(places.plan)
        files.write_atomic(places.plan, data)
    except OSError as error:
        raise SetupError(
            f"cannot write the plan to {places.plan}: {error.strerror}; expected a folder that this user can "
            "write to: run as root, or name another place in node.json"
        ) from error


def _keep(path: str) -> None:
    """A second name for the plan that is about to be replaced; there is a plan at every instant."""
    temporary = f"{path}.previous.{os.getpid()}.tmp"
    files.remove(temporary)
    os.link(path, temporary, follow_symlinks=False)
    Path(temporary).rename(f"{path}.previous")
