"""The thread that carries out what the collector took over: round after round, while it has the lease.

A round claims orders, reads all nodes once, judges, drains in few calls, and reads again. Whatever ends it in
between, the next one (here or elsewhere) finds the orders, and in Slurm what was done of them.
"""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_guard.collector import deeds, judge, preview
from slurm_guard.collector.batch import CALL_S, Batch
from slurm_guard.collector.deeds import Deed
from slurm_guard.collector.leader import Leader
from slurm_guard.collector.ledger import Ledger
from slurm_guard.core.errors import GuardError, SlurmError
from slurm_guard.core.plan import DEFAULTS
from slurm_guard.slurm import ownership
from slurm_guard.slurm.hostlist import fold
from slurm_guard.store import order_history, orders
from slurm_guard.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurm_guard.collector.journal import Journal
    from slurm_guard.collector.node_plans import NodePlans
    from slurm_guard.collector.pace import Pace
    from slurm_guard.slurm.gateway import Gateway, NodeState
    from slurm_guard.store import Store
    from slurm_guard.store.order_history import Standing
    from slurm_guard.store.orders import Order

EVERY_S = 1.0
#: A loop that has not come round for so long takes nothing over: nodes act by themselves.
ABLE_S = 90.0
#: While Slurm is silent it is asked after so many seconds, then twice as long, and so on.
PAUSE_S, LONGEST_PAUSE_S = 2.0, 30.0
_DAY_MS = 24 * 3600 * 1000
#: So often an update that Slurm refused is tried.
_MOST_TRIES = 3


class OrdersLoop:
    """Carries out orders of one store. `problem` says what keeps it from that, empty if nothing does."""

    def __init__(
        self,
        store: Store,
        plans: NodePlans,
        door: Callable[[], Gateway],
        pace: Pace,
        journal: Journal,
        cluster: str = "",
        switches: tuple[str, ...] = (),
    ) -> None:
        self._store, self._plans, self._pace, self._journal = store, plans, pace, journal
        self._door, self._cluster, self._switches = door, cluster, switches
        self.leader = Leader(store)
        self._writer = Writer(store)
        self._awake, self._ending = threading.Event(), False
        self._round_at = time.monotonic()
        self._pause, self._silent_until = 0.0, float("-inf")
        self._tries: dict[int, int] = {}
        self.problem = ""
        self._thread = threading.Thread(target=self._run, name="orders", daemon=True)

    def start(self) -> None:
        """Act from now on."""
        self._round_at = time.monotonic()
        self._thread.start()

    def close(self) -> None:
        """End after the round that is under way, and let another collector act."""
        self._ending = True
        self._awake.set()
        if self._thread.ident is not None:
            self._thread.join()
            self._quietly(self.leader.give_up)

    def wake(self) -> None:
        """There is something new."""
        self._awake.set()

    def is_able(self) -> bool:
        """True while rounds go on; another collector may be the one that acts in them."""
        return not self._ending and time.monotonic() - self._round_at < ABLE_S and not self._is_off()

    def _run(self) -> None:
        while not self._ending:
            self._quietly(self.round)
            self._awake.wait(EVERY_S)
            self._awake.clear()

    def _quietly(self, work: Callable[[], object]) -> None:
        try:
            work()
            self.problem = ""
            self._round_at = time.monotonic()
        except Exception as error:  # noqa: BLE001 - the next round may well succeed; the nodes are told if not
            said = str(error) if isinstance(error, GuardError) else f"{type(error).__name__}: {error}"
            if said != self.problem:
                self._journal.say(f"orders are not carried out: {said}")
            self.problem = said
            self._silent_until = time.monotonic() + LONGEST_PAUSE_S  # another collector may do better
            with suppress(GuardError):
                self.leader.give_up()

    @property
    def cluster(self) -> str:
        """The cluster whose orders are carried out here: the configuration's, else the plan's."""
        return self._cluster or str(self._plans.bundle().get("cluster") or "")

    def _is_off(self) -> bool:
        return any(Path(switch).exists() for switch in self._switches)

    def round(self) -> int:
        """One round; how many orders ended. Raises StoreError."""
        if self._is_off() or time.monotonic() < self._silent_until or not self.leader.take():
            return 0
        now = _now()
        waiting = [one for one in orders.waiting(self._store, now) if one.cluster in ("", self.cluster)]
        due = judge.ripe(waiting, now)
        if not due:
            return 0
        mine = set(orders.claim(self._store, [one.id for one in due], self.leader.holder, now))
        due = [one for one in due if one.id in mine]
        try:
            done = Round(self, due, now).run()
        except SlurmError as error:
            self._wait(due, f"Slurm did not answer: {error}")
            self._back_off(error)
            return 0
        except BaseException:
            self._wait(due, "a mistake of the collector's; see its log")
            raise
        self._pause = 0.0
        return done

    def _back_off(self, error: SlurmError) -> None:
        if not self._pause:
            self._journal.say(f"orders wait, for at most 30 minutes: {error}")
        self._pause = min(max(PAUSE_S, 2 * self._pause), LONGEST_PAUSE_S)
        spread = random.uniform(0, self._pause / 4)  # noqa: S311 - spreads load
        self._silent_until = time.monotonic() + self._pause + spread

    def say_drained(self, found: list[Deed]) -> None:
        """One line for each reason."""
        by_reason: dict[str, list[str]] = {}
        for deed in found:
            if deed.written and not deed.withdrawn:
                by_reason.setdefault(deed.order.reason, []).append(deed.order.node)
        for reason, names in by_reason.items():
            self._journal.say(f"drained {fold(names)}: {reason}")

    def _wait(self, some: list[Order], why: str) -> None:
        orders.give_back(self._store, [one.id for one in some], self.leader.holder, _now(), why[:500])


class Round:
    """One round over claimed orders. Every deed is on record as soon as it is known."""

    def __init__(self, loop: OrdersLoop, due: list[Order], now: int) -> None:
        self._loop, self._left, self._now = loop, {one.id: one for one in due}, now
        bundle = loop._plans.bundle()
        self._limits = {**DEFAULTS["budget"], **(bundle.get("budget") or {})}
        self._owners = loop._plans.owners()
        self._door = loop._door()
        self._batch = Batch(self._door, loop._pace, loop.leader, self._owners)
        self._ended = 0
        #: Orders whose drain has to be taken back, which Slurm did not do yet.
        self._unsettled: set[int] = set()

    def run(self) -> int:
        """Carry out; how many orders ended. Raises SlurmError where Slurm is silent, StoreError."""
        standings = order_history.standings(self._loop._store, self._left.values())
        self._drop_those_over(standings)
        if not self._left:
            return self._ended
        nodes = self._batch.read()
        self._judge_nodes(standings, nodes)
        go = self._judge_budget(nodes)
        try:
            self._batch.drain(go, nodes)
        finally:
            self._conclude()
        whys = self._batch.left
        for why in {*whys.values(), ""}:
            some = [order for order in self._left.values() if whys.get(order.id, "") == why]
            self._loop._wait(some, why or "waits for the next round")
        return self._ended

    def _record(self, some: list[Deed]) -> None:
        self._ended += deeds.record(self._loop._store, self._loop._writer, self._loop.leader.holder, some)
        for deed in some:
            self._left.pop(deed.order.id, None)
            self._loop._tries.pop(deed.order.id, None)

    def _drop_those_over(self, standings: dict[int, Standing]) -> None:
        found = []
        for order in self._left.values():
            plan = self._loop._plans.of(order.node)
            deed = preview.over(order, standings[order.id], plan, self._now)
            found += [deed] if deed is not None else []
        self._record(found)

    def _judge_nodes(self, standings: dict[int, Standing], nodes: dict[str, NodeState]) -> None:
        found = []
        for order in self._left.values():
            deed = preview.judged(order, nodes.get(order.node), standings[order.id], self._owners)
            found += [deed] if deed is not None else []
        self._record(self._without_excess(found, nodes))

    def _judge_budget(self, nodes: dict[str, NodeState]) -> list[Order]:
        """The orders to carry out, one a node; another of the same node waits for the next round."""
        losses = order_history.losses(self._loop._store, self._loop.cluster, self._now - _DAY_MS)
        ledger = Ledger(nodes.values(), self._limits, losses, self._now / 1000)
        one_a_node: dict[str, Order] = {}
        for order in self._left.values():
            if order.id not in self._unsettled:
                one_a_node.setdefault(order.node, order)
        go, held = judge.judge(one_a_node.values(), ledger)
        self._record([Deed(one.order, "held", one.why, one.limit) for one in held])
        return go

    def _conclude(self) -> None:
        """By the next read: what was drained, what was not, and what went past the budget meanwhile."""
        written = self._batch.written
        if not written:
            return
        nodes = self._batch.read()
        found: list[Deed] = []
        for update in written:
            calls = update.calls
            for order in update.orders:
                deed = self._ending_of(order, nodes.get(order.node), update.error)
                if deed is not None:
                    deed.calls, calls = calls, 0
                    found.append(deed)
        found = self._without_excess(found, nodes)
        self._record(found)
        self._loop.say_drained(found)

    def _ending_of(self, order: Order, node: NodeState | None, error: str) -> Deed | None:
        if self._batch.became(order, node, error):
            back = "" if node is None or node.drained else "; somebody put it back in service at once"
            return Deed(order, "done", f"drained: {order.reason}{back}", answer=error, written=True)
        tries = self._loop._tries[order.id] = self._loop._tries.get(order.id, 0) + 1
        if tries < _MOST_TRIES:
            return None
        return Deed(order, "failed", "Slurm refused", answer=error, written=False)

    def _without_excess(self, found: list[Deed], nodes: dict[str, NodeState]) -> list[Deed]:
        """The deeds that are over, once what went past the budget was taken back.

        Hooks drain by themselves at the same moment, and this collector or another may have been ended right
        after its update: so every drain is weighed once more after it was seen.
        """
        ours = {one.order.id for one in found if one.written and _is_out(nodes.get(one.order.node))}
        if not ours:
            return found
        names = {one.order.node for one in found if one.order.id in ours}
        others = [preview.undrained(node) if name in names else node for name, node in nodes.items()]
        losses = order_history.losses(self._loop._store, self._loop.cluster, self._now - _DAY_MS)
        ledger = Ledger(others, self._limits, losses, self._now / 1000)
        over = [one for one in found if one.order.id not in ours or self._is_settled(one, ledger)]
        self._unsettled |= {one.order.id for one in found} - {one.order.id for one in over}
        return over

    def _is_settled(self, deed: Deed, ledger: Ledger) -> bool:
        """False for a drain past the budget that could not be taken back yet."""
        order, room = deed.order, ledger.room(deed.order)
        if room.ok:
            ledger.take(order)
            return True
        self._loop._pace.take(2)
        done = ownership.safe_resume(
            self._door, order.node, self._owners, written=order.reason, withdraw=True, deadline=CALL_S
        )
        if done.outcome == ownership.FAILED:
            return False
        if done:
            deed.state, deed.withdrawn, deed.limit = "held", True, room.limit
        deed.why, deed.calls = f"{deed.why}; {room.why}; {done.why}", deed.calls + done.calls
        return True


def _is_out(node: NodeState | None) -> bool:
    return node is not None and node.drained


def _now() -> int:
    return round(time.time() * 1000)
