"""The plan of any node, from the bundle that this collector serves."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

from slurm_guard.core.plan import DEFAULTS, Plan

if TYPE_CHECKING:
    from slurm_guard.collector.plan_file import PlanFile


class NodePlans:
    """Plans by node; may be asked from several threads."""

    def __init__(self, file: PlanFile) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._hash = ""
        self._bundle: dict[str, Any] = {}

    def of(self, node: str) -> Plan | None:
        """The newest good plan of a node; None where there is no plan that can be read."""
        bundle = self.bundle()
        if not bundle:
            return None
        index = bundle.get("nodes", {}).get(node)
        # A plan of one node alone: the names of all nodes would be sorted for each of them.
        alone = {**bundle, "nodes": {} if index is None else {node: index}}
        try:
            return Plan(alone, node, now=time.time())
        except (AttributeError, LookupError, TypeError, ValueError):
            return None

    def owners(self) -> list[str]:
        """The users whose drains count as the guard's."""
        return list(self.bundle().get("owners") or DEFAULTS["owners"])

    def bundle(self) -> dict[str, Any]:
        """The bundle as it was compiled; empty where there is none."""
        with self._lock:
            found = self._file.look()
            if found is not None and found.hash != self._hash:
                self._hash, self._bundle = found.hash, json.loads(found.body)
            return self._bundle
