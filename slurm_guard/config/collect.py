"""The `[collect]` table: how `sguard collect` reaches nodes by SSH. Concerns the collecting host alone."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from slurm_guard.config.fields import AbsolutePath, Word
from slurm_guard.config.section import Section
from slurm_guard.slurm.hostlist import expand

#: What a shell takes as it is: the command runs through the far side's shell.
PLAIN_COMMAND = re.compile(r"[A-Za-z0-9_./=:,@%+-]+(?: [A-Za-z0-9_./=:,@%+-]+)*")
_ADDRESS = re.compile(r"[A-Za-z0-9_.:-]{1,253}")


def _plain(text: str) -> str:
    if PLAIN_COMMAND.fullmatch(text) is None:
        raise ValueError("words of letters, digits and . _ / = : , @ % + -, one blank apart: no shell syntax")
    return text


def _pairs(table: dict[str, str]) -> dict[str, str]:
    addresses_of(table)
    return table


def addresses_of(table: dict[str, str]) -> dict[str, str]:
    """The address of each node of a `hosts` table. Raises ValueError: what was expected."""
    found: dict[str, str] = {}
    for nodes, addresses in table.items():
        try:
            names, places = expand(nodes), expand(addresses)
        except ValueError:
            raise ValueError('pairs of hostlists, such as "gpu[1-8]" = "gpu[1-8]-mgmt"') from None
        if not names or len(names) != len(places):
            raise ValueError(f"as many addresses as nodes: {nodes!r} are {len(names)}, not {len(places)}")
        if not all(map(_ADDRESS.fullmatch, places)) or not found.keys().isdisjoint(names):
            raise ValueError("host names or addresses, and each node once")
        found.update(zip(names, places, strict=True))
    return found


Wait = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]


class Collect(Section):
    """Fetching records by SSH."""

    user: Word = "root"
    port: Annotated[int, Field(ge=1, le=65535)] = 22
    key: AbsolutePath | None = None
    known_hosts: AbsolutePath | None = None
    command: Annotated[str, AfterValidator(_plain)] | None = None
    hosts: Annotated[dict[str, str], AfterValidator(_pairs)] = {}
    parallel: Annotated[int, Field(ge=1, le=256)] = 32
    connect_s: Wait = 10.0
    auth_s: Wait = 15.0
    transfer_s: Wait = 300.0
