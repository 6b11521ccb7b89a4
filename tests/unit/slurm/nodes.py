"""Nodes and a Slurm double for the tests of ownership and budget."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from slurm_guard.core.errors import SlurmRefusedError
from slurm_guard.slurm import state_words
from slurm_guard.slurm.gateway import Gateway, NodeState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

OWNERS = ("root", "slurm")
OURS = "SG:gpu_remap.failure gpu5"


def node(name: str = "c7", state: str = "IDLE", reason: str = "", **fields: Any) -> NodeState:
    parsed = state_words.parse(state)
    fields.setdefault("reason_user", "root" if reason else "")
    fields.setdefault("reason_time", 1_800_000_000 if reason else None)
    fields.setdefault("partitions", ["batch"])
    return NodeState(
        name,
        parsed.base,
        parsed.flags,
        parsed.unknown_flags,
        reason=reason,
        raw=state,
        exact=parsed.exact,
        **fields,
    )


class SlurmDouble(Gateway):
    """A controller in memory. `before_read` may change it, as admins do at any moment."""

    def __init__(self, *known: NodeState) -> None:
        self.known = {one.name: one for one in known}
        self.calls = 0
        self.log: list[tuple[str, ...]] = []
        self.before_read: Callable[[SlurmDouble], None] = lambda _: None
        self.age = 0.0

    def nodes(self, names: Iterable[str] | None = None, deadline: float = 3.0) -> list[NodeState]:
        self.calls += 1
        self.before_read(self)
        self.log.append(("read", "all" if names is None else ",".join(names)))
        found = (
            list(self.known.values()) if names is None else [self.known[n] for n in names if n in self.known]
        )
        if not found:
            raise SlurmRefusedError("no such node")
        for one in found:
            one.read_at = time.monotonic() - self.age
        return found

    def drain(self, name: str, reason: str, deadline: float = 3.0, comment: str | None = None) -> None:
        self.calls += 1
        self.log.append(("drain", name, reason))
        self._put(name, f"{self.known[name]}+DRAIN", reason, comment)

    def resume(self, name: str, deadline: float = 3.0, comment: str | None = None) -> None:
        self.calls += 1
        self.log.append(("resume", name))
        self._put(name, "IDLE", "", comment)

    def _put(self, name: str, state: str, reason: str, comment: str | None) -> None:
        before = self.known[name]
        self.known[name] = node(name, state, reason, partitions=before.partitions)
        self.known[name].comment = before.comment if comment is None else comment

    @property
    def writes(self) -> list[tuple[str, ...]]:
        return [entry for entry in self.log if entry[0] != "read"]
