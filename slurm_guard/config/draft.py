"""A first `slurm-guard.toml` for this cluster, from what its slurm.conf says about nodes and GPUs."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from slurm_guard.core.plan import DEFAULTS
from slurm_guard.slurm.hostlist import expand, fold

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slurm_guard.config.slurm_conf import SlurmConf

_GPUS = re.compile(r"gpu(?::(?P<type>[\w.+-]+?))?(?::(?P<count>\d{1,4}))?(?:\([^)]*\))?", re.IGNORECASE)

_HEAD = """\
# slurm_guard's settings; every key is explained in docs/configuration.md.
# After a change: `sguard config check`, then `sguard config apply` (on every
# node, or into its image). Files in conf.d/*.toml are read after this one, in
# the order of their names; a later value wins.

cluster = {cluster}
# Drains set by these users count as the guard's own.
owners = {owners}

[slurm]
{conf}

# Nothing is drained until a mode says so. Read `sguard drains` for a week, then
# enforce `drain`, later `resume`, last `refuse`.
# [[mode]]
# check = "*"
# action = "drain"
# mode = "enforce"
"""

_CLASS = """
[[class]]
name = {name}
nodes = {nodes}
gpus = {gpus}
# ib_ports = {ports}
# Name the file systems that jobs need: only then is one seen that hangs.
# [[class.mounts]]
# path = "/scratch"
# type = "lustre"
# shared = true
"""


class Group(NamedTuple):
    """Nodes with the same GPUs: a class to be. `name` is like `8xH100`, or `cpu`."""

    name: str
    gpus: int
    nodes: list[str]


def draft(conf: SlurmConf | None, groups: list[Group]) -> str:
    """The text of the file; it is valid as it is, whatever slurm.conf holds."""
    owners = ["root"] if conf else list(DEFAULTS["owners"])
    if conf and conf.last("SlurmUser"):
        owners.append(_word((conf.last("SlurmUser") or "").partition("(")[0]) or "slurm")
    text = _HEAD.format(
        cluster=_quoted((conf.last("ClusterName") or "") if conf else ""),
        owners="[" + ", ".join(map(_quoted, dict.fromkeys(owners))) + "]",
        conf=f"conf = {_quoted(conf.path)}" if conf else '# conf = "/etc/slurm/slurm.conf"',
    )
    for group in groups:
        ports = group.gpus or 1
        text += _CLASS.format(
            name=_quoted(group.name), nodes=_quoted(fold(group.nodes)), gpus=group.gpus, ports=ports
        )
    return text


def groups_of(conf: SlurmConf) -> list[Group]:
    """The nodes of slurm.conf by number and type of their GPUs, `NodeName=DEFAULT` lines applied."""
    found: dict[tuple[str, int], dict[str, None]] = {}
    seen: set[str] = set()
    default_gres = ""
    for line in conf.all("NodeName"):
        gres = line.fields.get("gres", default_gres)
        if line.value.upper() == "DEFAULT":
            default_gres = gres
            continue
        names = [name for name in _names(line.value) if name not in seen]
        seen.update(names)
        if names:
            found.setdefault(gpus_of(gres), {}).update(dict.fromkeys(names))
    return [Group(_class_name(kind, count), count, list(names)) for (kind, count), names in found.items()]


def group_of_all(names: Iterable[str]) -> list[Group]:
    """One class for nodes of which only the names are known."""
    nodes = list(names)
    return [Group("all", 0, nodes)] if nodes else []


def gpus_of(gres: str) -> tuple[str, int]:
    """Type and number of GPUs in a Gres value: `gpu:h100:8(S:0-1),nic:2` is ("H100", 8)."""
    kinds: dict[str, None] = {}
    total = 0
    for part in re.split(r",(?![^(]*\))", gres):
        match = _GPUS.fullmatch(part.strip())
        if match is None:
            continue
        kind, count = match["type"] or "", match["count"]
        if count is None and kind.isdecimal():
            kind, count = "", kind[:4]
        total += int(count or 1)
        if kind:
            kinds[kind.upper()] = None
    return "+".join(kinds), total


def _class_name(kind: str, count: int) -> str:
    return f"{count}x{kind or 'GPU'}"[:64] if count else "cpu"


def _names(hostlist: str) -> list[str]:
    try:
        return expand(hostlist)
    except ValueError:
        return []


def _quoted(text: str) -> str:
    """A TOML string."""
    return json.dumps("".join(letter for letter in text if letter.isprintable()), ensure_ascii=False)


def _word(text: str) -> str:
    return "".join(letter for letter in text if letter.isprintable() and letter not in ' ,"\\')
