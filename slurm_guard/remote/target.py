"""Whom to ask, how, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: Nodes that are asked at once, unless the configuration says otherwise.
PARALLEL = 32
#: Seconds for the connection (name, TCP and SSH's own opening), for the keys, and for all records of a node.
CONNECT_S, AUTH_S, TRANSFER_S = 10.0, 15.0, 300.0


@dataclass(frozen=True, slots=True)
class Target:
    """A node, and the name or address that SSH knows it by."""

    node: str
    address: str


@dataclass(frozen=True, slots=True)
class Access:
    """How nodes are reached. `command` runs there; without `key`, the agent's and the user's own count."""

    command: str
    known_hosts: tuple[Path, ...]
    user: str = "root"
    port: int = 22
    key: Path | None = None
    parallel: int = PARALLEL
    connect_s: float = CONNECT_S
    auth_s: float = AUTH_S
    transfer_s: float = TRANSFER_S
