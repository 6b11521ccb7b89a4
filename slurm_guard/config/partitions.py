"""Which nodes are in which partition, by slurm.conf: `ALL`, node sets and hostlists alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_guard.slurm.hostlist import expand

if TYPE_CHECKING:
    from slurm_guard.config.slurm_conf import SlurmConf


def partitions_of(conf: SlurmConf) -> dict[str, list[str]]:
    """Partition name → NodeNames, in Slurm's order. What cannot be read as a hostlist names no node.

    Several lines of one partition add up, as they do for Slurm; `DEFAULT` lines hold for those that follow
    and give no nodes of their own.
    """
    everything = _node_names(conf)
    sets = {one.value: _expanded(one.fields.get("nodes", "")) for one in conf.all("nodeset")}
    found: dict[str, list[str]] = {}
    usual: str = ""
    for line in conf.all("partitionname"):
        nodes = line.fields.get("nodes", usual)
        if line.value.upper() == "DEFAULT":
            usual = nodes
            continue
        known = found.setdefault(line.value, [])
        known += [name for name in _resolve(nodes, everything, sets) if name not in known]
    return found


def _node_names(conf: SlurmConf) -> list[str]:
    found: dict[str, None] = {}
    for line in conf.all("nodename"):
        if line.value.upper() != "DEFAULT":
            found.update(dict.fromkeys(_expanded(line.value)))
    return list(found)


def _resolve(text: str, everything: list[str], sets: dict[str, list[str]]) -> list[str]:
    if text.upper() == "ALL":
        return everything
    return [name for word in _expanded(text) for name in sets.get(word, [word])]


def _expanded(text: str) -> list[str]:
    try:
        return expand(text) if text.strip() else []
    except ValueError:
        return []
