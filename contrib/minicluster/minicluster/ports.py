"""Free TCP ports, so that several clusters start side by side without racing each other.

A cluster holds a block of consecutive ports. The block is written down in one shared folder with the
cluster's folder, and in that folder that the cluster starts, both under one lock; the block is free again
when that cluster says that it is down, or is gone.
"""

from __future__ import annotations

import json
import random
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from minicluster.errors import StartError
from minicluster.files import locked, write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_PORT, LAST_PORT, BLOCK = 20000, 32000, 80  # below the kernel's ephemeral ports; 64 nodes and 4 more
REGISTRY = Path("/run/minicluster/ports")


def reserve(directory: Path, count: int, claim: Callable[[int], None]) -> None:
    """Reserve `count` consecutive ports for the cluster in `directory`.

    `claim` gets the first one, and writes into the folder that this cluster has it. Raises StartError when
    no block is free.
    """
    if count > BLOCK:
        raise StartError(f"{count} ports wanted, a cluster has at most {BLOCK}: start fewer nodes")
    bases = list(range(FIRST_PORT, LAST_PORT - BLOCK, BLOCK))
    random.shuffle(bases)
    REGISTRY.mkdir(parents=True, exist_ok=True)
    with locked(REGISTRY / "lock"):
        for base in bases:
            if not _held(base) and all(_can_bind(base + i) for i in range(count)):
                write_atomically(REGISTRY / str(base), json.dumps({"directory": str(directory)}))
                claim(base)
                return
    raise StartError(
        f"no free block of ports between {FIRST_PORT} and {LAST_PORT}: stop another cluster first"
    )


def release(directory: Path, base: int) -> None:
    """Give a block back, if it is still this cluster's."""
    if _holder(base) is None:
        return
    with locked(REGISTRY / "lock"):
        if _holder(base) == str(directory):
            (REGISTRY / str(base)).unlink(missing_ok=True)


def _holder(base: int) -> str | None:
    try:
        return str(json.loads((REGISTRY / str(base)).read_text())["directory"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _held(base: int) -> bool:
    holder = _holder(base)
    if holder is None:
        return False
    try:
        state = json.loads((Path(holder) / "cluster.json").read_text())
    except (OSError, ValueError):
        return False
    return bool(state.get("port") == base) and state.get("state") != "down"


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
