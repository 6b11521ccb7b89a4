"""Which drains the collector takes over: asked for by a healthcheck just now, and allowed by the plan here.

Called within the transaction that takes the records: an order is on disk before its node hears of it. The
same record again gets the same answer.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from slurm_guard.core import reason as reasons
from slurm_guard.store import orders
from slurm_guard.store.orders import Order

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from slurm_guard.collector.commit import Request
    from slurm_guard.collector.node_plans import NodePlans
    from slurm_guard.store.record import Record

#: A request older than this is carried out by nobody; a clock may be wrong by as much as munge bears.
OLDEST_MS = 30 * 60_000
_SKEW_MS = 300_000
_LONGEST = 200


class TakingOver:
    """Makes orders of records. `is_able` says whether somebody here can carry them out."""

    def __init__(
        self, plans: NodePlans, is_able: Callable[[], bool], wake: Callable[[], None] = lambda: None
    ) -> None:
        self._plans = plans
        self._is_able = is_able
        self._wake = wake

    def __call__(self, connection: Connection, request: Request, records: list[Record]) -> list[str]:
        """The runs whose drain the collector carries out."""
        wanted = [(one, action) for one in records for action in _asked_for(one, request.at)]
        found: list[str] = []
        for one, action in wanted:
            if self._is_ordered(connection, one, action, request.at):
                found.append(str(one.data["run_id"]))
        if found:
            self._wake()
        return found

    def _is_ordered(self, connection: Connection, record: Record, action: dict[str, Any], now: int) -> bool:
        order = _order(record, action, now)
        if order is None:
            return False
        if orders.is_known(connection, order):
            return True
        plan = self._plans.of(order.node)
        check = order.fault.partition(".")[0]
        if plan is None or plan.mode(check, "drain") != "enforce" or not self._is_able():
            return False
        order.policy_hash = plan.hash
        orders.replace_waiting(connection, order)
        return True


def _asked_for(record: Record, now: int) -> list[dict[str, Any]]:
    """The drains that a healthcheck has left on its node's disk."""
    data = record.data
    if record.kind != "run" or data.get("hook") != "healthcheck":
        return []
    if not now - OLDEST_MS < record.started < now + _SKEW_MS:
        return []
    actions = data.get("actions") or ()
    return [one for one in actions if one["action"] == "drain" and one["outcome"] == "queued"]


def _order(record: Record, action: dict[str, Any], now: int) -> Order | None:
    """The order for a drain; None where its words are not such as our own code writes them."""
    data, fault, device = record.data, action.get("fault") or "", action.get("device") or ""
    if not (data.get("machine") or {}).get("boot_id") or len(fault) + len(device) > _LONGEST:
        return None
    reason = reasons.build(fault, device)
    if action.get("reason") != reason or not reasons.is_ours_unchanged(reason, reason):
        return None
    decision = _decision(data, fault, device)
    jobs, users = _others(data)
    return Order(
        cluster=data.get("cluster") or "",
        node=data["node"],
        kind="drain",
        fault=fault,
        device=device,
        scope=decision if decision in ("device", "node", "shared") else "node",
        reason=reason,
        run=data["run_id"].lower(),
        made_at=now,
        job_ids=jobs,
        users=users,
    )


def _decision(data: dict[str, Any], fault: str, device: str) -> str:
    """The scope that the node's policy gave the fault; empty where it is not told."""
    for one in data.get("decisions") or ():
        if (one.get("fault"), one.get("device") or "") == (fault, device):
            return str(one.get("scope") or "")
    return ""


def _others(data: dict[str, Any]) -> tuple[list[int], list[str]]:
    """Jobs and users (uids as text) on the node; root is nobody."""
    others = [one for one in data.get("others") or () if type(one.get("job_id")) is int]
    users = {one["uid"] for one in others if type(one.get("uid")) is int and one["uid"] > 0}
    return sorted({one["job_id"] for one in others}), [str(uid) for uid in sorted(users)]


def now_ms() -> int:
    """The time in milliseconds."""
    return round(time.time() * 1000)
