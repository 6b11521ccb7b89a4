"""What is one cause: the rules that say which members may belong to one incident, and what it is called."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from slurm_guard.store.incident_model import SHARED

if TYPE_CHECKING:
    from slurm_guard.store.incident_model import Member

_NUMBERS = re.compile(r"\d.*")


class Key(NamedTuple):
    """Members with different keys never share an incident.

    A shared cause is known by its check and the object that is shared (a mount, the plan, a limit of the
    budget): `fault` is the check then. Any other is known by its fault, on whichever node it is.
    """

    cluster: str
    scope: str
    fault: str
    device: str


def key(member: Member) -> Key:
    """The key of a member."""
    if member.scope == SHARED:
        return Key(member.cluster, SHARED, member.check, member.device)
    return Key(member.cluster, "", member.fault, "")


def family(device: str) -> str:
    """The kind of a device: `gpu` of `gpu3`, `mlx` of `mlx5_0/1`; a path is a kind of its own."""
    return device if device.startswith("/") else _NUMBERS.sub("", device)


def cause(members: list[Member], *, many: bool) -> str:
    """The cause of an incident as one text, the same whenever its records came."""
    first = members[0]
    if first.scope == SHARED:
        return f"{first.check} {first.device}".strip()
    if many:
        return f"many nodes {first.fault}"
    return f"{first.node} {first.fault} {family(first.device)}".strip()
