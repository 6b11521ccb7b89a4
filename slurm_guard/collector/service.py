"""The collector as a whole: its parts, started before the first request and closed after the last."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from slurm_guard.collector.gate import Gate
from slurm_guard.collector.intake import Intake
from slurm_guard.collector.journal import Journal
from slurm_guard.collector.node_plans import NodePlans
from slurm_guard.collector.orders_loop import OrdersLoop
from slurm_guard.collector.origins import LOOKUP_S, Origins
from slurm_guard.collector.pace import Pace
from slurm_guard.collector.plan_file import PlanFile
from slurm_guard.collector.proof import MungeProof, Proof, TokenProof
from slurm_guard.collector.takeover import TakingOver
from slurm_guard.collector.watching import Watching
from slurm_guard.slurm.command_gateway import CommandGateway
from slurm_guard.store import open_store, schema_central

if TYPE_CHECKING:
    from slurm_guard.collector.commit import TakeOver
    from slurm_guard.collector.settings import Settings


class Collector:
    """`gate` lets requests in, `intake` writes, `plan` is what nodes get, `journal` what an admin reads.

    `orders` acts on Slurm where that was asked for, `watching` keeps incidents up to date.
    """

    def __init__(self, settings: Settings, take_over: TakeOver | None = None) -> None:
        """Opens the store. Raises StoreError."""
        self.settings = settings
        self.store = open_store(settings.store)
        try:
            schema_central.ensure(self.store)
        except BaseException:
            self.store.close()
            raise
        self.journal = Journal()
        self.plan = PlanFile(settings.plan)
        self.origins = Origins(self._addresses, settings.addresses)
        self.plans = NodePlans(self.plan)
        pace = Pace(settings.calls_per_s)
        door = partial(CommandGateway, settings.programs, settings.slurm_conf)
        self.orders: OrdersLoop | None = None
        if settings.acting and take_over is None:
            self.orders = OrdersLoop(
                self.store,
                self.plans,
                door,
                pace,
                self.journal,
                cluster=settings.cluster,
                switches=settings.switches,
            )
            take_over = TakingOver(self.plans, self.orders.is_able, self.orders.wake)
        self.watching = Watching(
            self.store, door, pace, self.journal, self._cluster_now, settings.silent_after_s
        )
        self.intake = Intake(self.store, settings.alive, take_over)
        proof: Proof = (
            TokenProof(settings.token_file) if settings.token_file else MungeProof(settings.munge_socket)
        )
        self.gate = Gate(proof, self.origins, settings.uids, self.intake.was_used)

    def start(self) -> None:
        """Take requests from now on. Raises StoreError or OSError if nothing can be written."""
        self.plan.look()
        self.intake.start()
        self.watching.start()
        if self.orders is not None:
            self.orders.start()

    def close(self) -> None:
        """Commit what is waiting, then close everything."""
        self.intake.close()
        if self.orders is not None:
            self.orders.close()
        self.watching.close()
        self.gate.close()
        self.origins.close()
        self.store.close()

    async def cluster(self) -> str:
        """The cluster whose records are taken: the configuration's, else the plan's; empty takes any."""
        if self.settings.cluster:
            return self.settings.cluster
        bundle = await self.plan.current()
        return bundle.cluster if bundle else ""

    async def plan_hash(self) -> str:
        """The hash of the plan that nodes get; empty where there is none."""
        bundle = await self.plan.current()
        return bundle.hash if bundle else ""

    def _cluster_now(self) -> str:
        return self.settings.cluster or str(self.plans.bundle().get("cluster") or "")

    def _addresses(self) -> dict[str, tuple[str, str]]:
        return CommandGateway(self.settings.programs, self.settings.slurm_conf).addresses(LOOKUP_S)
