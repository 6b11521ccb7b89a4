"""Node sets of the configuration, from hostlists."""

from __future__ import annotations

from ClusterShell.NodeSet import NodeSet, NodeSetException


def expand(text: str) -> list[str]:
    """The names of a hostlist, in order. Raises ValueError that says what cannot be read."""
    try:
        return list(NodeSet(text, autostep=None, resolver=None)) if text.strip() else []
    except NodeSetException as error:
        raise ValueError(str(error)) from None


def fold(names: list[str]) -> str:
    """Names as one hostlist."""
    return str(NodeSet.fromlist(names, autostep=None, resolver=None))
