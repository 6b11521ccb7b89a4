"""A Slurm in memory, as the collector's door sees it, and orders for its nodes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

from slurm_guard.collector.journal import Journal
from slurm_guard.collector.node_plans import NodePlans
from slurm_guard.collector.orders_loop import OrdersLoop
from slurm_guard.collector.pace import Pace
from slurm_guard.collector.plan_file import PlanFile
from slurm_guard.core import reason as reasons
from slurm_guard.core import tag
from slurm_guard.core.errors import SlurmRefusedError, SlurmUnreachableError
from slurm_guard.engine import clock
from slurm_guard.slurm.gateway import DEADLINE_S, Gateway, NodeState
from slurm_guard.store import Store
from slurm_guard.store import orders as table
from slurm_guard.store.orders import Order
from slurm_guard.store.record import parse
from slurm_guard.store.writer import Writer
from tests.unit.collector.kit import record, write_plan
from tests.unit.store.factory import finding

FAULT, DEVICE = "gpu_count.lost", "gpu3"
REASON = f"SG:{FAULT} {DEVICE}"
BOOT = "boot-one"
ROOMY = {"nodes": 1000, "percent": 100, "per_hour": 1000, "shared_nodes": 1}


class Slurm(Gateway):
    """Nodes by name: (state flags, reason, user, comment). Other hands may act before and after each call."""

    def __init__(self, *names: str) -> None:
        self.calls = 0
        self.log: list[tuple[str, tuple[str, ...]]] = []
        self.state: dict[str, dict[str, Any]] = {}
        for name in names:
            self.state[name] = {"base": "idle", "flags": set(), "reason": "", "user": "", "comment": ""}
        self.gone: set[str] = set()
        self.silent = False
        self.drops_answers = False
        self.before: Callable[[str], None] = lambda _what: None
        self.after: Callable[[str], None] = lambda _what: None

    def nodes(self, names: Iterable[str] | None = None, deadline: float = DEADLINE_S) -> list[NodeState]:
        self._call("read")
        wanted = set(self.state) if names is None else set(names)
        found = [self._told(name) for name in self.state if name in wanted - self.gone]
        self.after("read")
        return found

    def _told(self, name: str) -> NodeState:
        known = self.state[name]
        return NodeState(
            name,
            known["base"],
            known["flags"],
            reason=known["reason"],
            reason_user=known["user"],
            reason_time=known.get("time"),
            partitions=["main"],
            comment=known["comment"],
            read_at=time.monotonic(),
        )

    def drain_many(
        self, names: Iterable[str], reason: str, deadline: float = DEADLINE_S, comment: str | None = None
    ) -> None:
        wanted = tuple(names)
        self._call("drain", wanted)
        for name in wanted:
            if name not in self.gone:
                self.drain_as(name, reason, "root")
                if comment is not None:
                    self.state[name]["comment"] = comment
        self.after("drain")
        if self.drops_answers:
            raise SlurmUnreachableError("scontrol gave no answer")
        if self.gone & set(wanted):
            raise SlurmRefusedError("Invalid node name specified")

    def resume(self, name: str, deadline: float = DEADLINE_S, comment: str | None = None) -> None:
        self._call("resume", (name,))
        self.resume_by_hand(name)
        if comment is not None:
            self.state[name]["comment"] = comment

    def drain_as(self, name: str, reason: str, user: str) -> None:
        """A drain by whomever."""
        self.state[name].update(reason=reason, user=user, time=int(time.time()))
        self.state[name]["flags"] = {"DRAIN"}

    def resume_by_hand(self, name: str) -> None:
        """An admin's resume."""
        self.state[name].update(reason="", user="", flags=set())

    def drained(self, reason: str = "") -> list[str]:
        """The nodes that are drained, with this reason if one is given."""
        out = [name for name, one in self.state.items() if "DRAIN" in one["flags"]]
        return [name for name in out if reason in ("", self.state[name]["reason"])]

    def writes(self) -> list[tuple[str, ...]]:
        """The names of each update."""
        return [names for what, names in self.log if what == "drain"]

    def _call(self, what: str, names: tuple[str, ...] = ()) -> None:
        self.before(what)
        self.calls += 1
        self.log.append((what, names))
        if self.silent:
            raise SlurmUnreachableError("scontrol gave no answer within 10 s; is slurmctld up?")


def plan_in(folder: Any, **budget: float) -> NodePlans:
    """Plans of nodes that drain, with this budget."""
    path = folder / "plan.json"
    more = {"budget": {**ROOMY, **budget}, "default_profile": {"modes": [["*", "*", "enforce"]]}}
    write_plan(path, **more)
    return NodePlans(PlanFile(path))


def loop_of(store: Store, slurm: Slurm, plans: NodePlans, **more: Any) -> OrdersLoop:
    """A loop that a test turns by hand."""
    return OrdersLoop(store, plans, lambda: slurm, Pace(1e6), Journal(), "lab", **more)


def asking(
    node: str,
    fault: str = FAULT,
    device: str = DEVICE,
    *,
    seen: bool = True,
    scope: str = "device",
    boot: str = BOOT,
    at: float | None = None,
    jobs: dict[int, int] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """The record of a healthcheck that asks for a drain; `jobs` are ids and uids of what runs there."""
    moment = time.time() if at is None else at
    action = {"action": "drain", "fault": fault, "device": device, "outcome": "queued"}
    action["reason"] = reasons.build(fault, device)
    found = finding(fault, device=device, event=bool(more.pop("event", False)), scope=scope)
    made = record(node, **more)
    made.update(
        started=clock.iso(moment),
        machine={"boot_id": boot, "machine_id": f"id-{node}", "serial": "S1"},
        actions=[action],
        decisions=[{"action": "drain", "fault": fault, "device": device, "scope": scope, "mode": "enforce"}],
        others=[{"job_id": job, "uid": uid} for job, uid in (jobs or {}).items()],
        results=[],
        passed=["memory_size"],
    )
    if seen:
        made["results"] = [{"check": fault.partition(".")[0], "status": "fail", "findings": [found]}]
    return made


def healthy(node: str, check: str = "gpu_count", boot: str = BOOT, at: float | None = None) -> dict[str, Any]:
    """The record of a healthcheck that found a check good."""
    made = record(node)
    machine = {"boot_id": boot, "machine_id": f"id-{node}", "serial": "S1"}
    started = clock.iso(time.time() if at is None else at)
    return {**made, "started": started, "machine": machine, "passed": [check, "memory_size"], "actions": []}


def keep(store: Store, *records: dict[str, Any]) -> None:
    """Put records into the store."""
    written = Writer(store).write([parse(json.dumps(one).encode()) for one in records])
    assert not written.refused, written.refused


def order_of(store: Store, asked: dict[str, Any], **more: Any) -> Order:
    """An order for a record, which is put into the store too."""
    keep(store, asked)
    action = asked["actions"][0]
    given: dict[str, Any] = {
        "cluster": asked["cluster"],
        "node": asked["node"],
        "kind": "drain",
        "fault": action["fault"],
        "device": action["device"],
        "scope": asked["decisions"][0]["scope"],
        "reason": action["reason"],
        "run": asked["run_id"],
        "made_at": round(time.time() * 1000),
        "job_ids": [one["job_id"] for one in asked["others"]],
        "users": [str(one["uid"]) for one in asked["others"]],
    }
    order = Order(**{**given, **more})
    with store.write() as connection:
        order.id = table.add(connection, order)
    return order


def ends(store: Store) -> list[tuple[str, str, str]]:
    """(node, state, why) of every order, oldest first."""
    ask = "SELECT n.name, o.state, o.why FROM orders o JOIN nodes n ON n.id=o.node_id ORDER BY o.id"
    with store.read() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(ask)]


def states(store: Store) -> dict[str, str]:
    """The state of each node's newest order."""
    return {node: state for node, state, _ in ends(store)}


def actions(store: Store) -> list[tuple[str, str, str, Any]]:
    """(node, action, outcome, extra) of every action of the collector's on record."""
    ask = (
        "SELECT n.name, a.action, a.outcome, a.extra FROM actions a JOIN nodes n ON n.id=a.node_id "
        "JOIN runs r ON r.id=a.run WHERE r.hook='collector' ORDER BY a.id"
    )
    with store.read() as connection:
        rows = connection.exec_driver_sql(ask).all()
    return [(node, action, outcome, json.loads(extra or "{}")) for node, action, outcome, extra in rows]


def note(at: float, jobs: Iterable[int] = (), users: Iterable[int] = ()) -> str:
    """A comment of ours."""
    return tag.added("", tag.Entry(int(at), jobs, users), 0) or ""


def fresh_id() -> str:
    """A run id."""
    return os.urandom(16).hex()
