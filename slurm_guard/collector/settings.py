"""What the collector was told: by the configuration and by this host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """Paths are absolute; empty ones are not set. `uids` and `admins` are numbers, root is one of both.

    `plan` is the bundle that nodes get, `alive` the dead man's file, `addresses` the admin's own table
    (hostlist to addresses or networks). `acting`: the collector drains, with so many calls of Slurm a
    second; a node is silent after `silent_after_s` without a word. While a file of `switches` exists, the
    collector does nothing to Slurm.
    """

    store: Path
    plan: Path
    alive: Path
    cluster: str = ""
    host: str = "127.0.0.1"
    port: int = 9427
    certificate: str = ""
    key: str = ""
    token_file: str = ""
    munge_socket: str = ""
    uids: frozenset[int] = frozenset()
    admins: frozenset[int] = frozenset()
    programs: dict[str, str] = field(default_factory=dict)
    slurm_conf: str = ""
    addresses: dict[str, list[str]] = field(default_factory=dict)
    acting: bool = False
    calls_per_s: float = 10.0
    silent_after_s: float = 900.0
    switches: tuple[str, ...] = ()

    @property
    def signing(self) -> str:
        """How requests are signed, in words."""
        if self.token_file:
            return f"a token ({self.token_file})"
        return f"munge ({self.munge_socket or 'its own socket'})"
