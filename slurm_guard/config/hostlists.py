"""Node sets of the configuration, from hostlists."""

from __future__ import annotations

from ClusterShell.NodeSet import NodeSet, NodeSetException


def expand(text: str) -> list[str]:
    try:
        return list(NodeSet(text, autostep=None, resolver=None)) if text.strip() else []
    except NodeSetException as error:
        raise ValueError(str(error)) from None


def fold(names: list[str]) -> str:
    return str(NodeSet.fromlist(names, autostep=None, resolver=None))
