"""Hostlists as sets, and folding names back to a hostlist, with ClusterShell; `host_names` expands them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
from ClusterShell.RangeSet import RangeSetException

from slurm_guard.slurm.host_names import MOST_NAMES, HostlistError, expand

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MOST_NAMES", "HostlistError", "expand", "fold", "nodeset"]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+-]*")


def nodeset(text: str, most: int = MOST_NAMES) -> NodeSet:
    """A hostlist as a set, for unions, intersections and differences.

    ClusterShell's own operators and groups (`!`, `&`, `^`, `@group`) are errors here, as they are for Slurm.
    """
    return _set(expand(text, most))


def fold(names: Iterable[str]) -> str:
    """The shortest hostlist of some names, sorted, each name once: it expands to exactly these names.

    Raises:
        HostlistError: one of them is not a plain name.
    """
    wanted = sorted(set(names))
    for name in wanted:
        if _NAME.fullmatch(name) is None:
            raise HostlistError(f"{name!r} is not a node name; expected letters, digits and . : + _ -")
    folded = str(_set(wanted))
    # Folding must never lose or invent a zero: commands would go to hosts that do not exist.
    try:
        if set(expand(folded, len(wanted))) == set(wanted):
            return folded
    except HostlistError:
        pass
    return ",".join(wanted)


def _set(names: Iterable[str]) -> NodeSet:
    try:
        return NodeSet.fromlist(list(names), resolver=RESOLVER_NOGROUP)
    except (NodeSetException, RangeSetException) as error:
        raise HostlistError(f"{error}; expected plain node names") from None
