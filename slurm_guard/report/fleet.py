"""What a verdict asks about other nodes and jobs, answered from the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_guard.diagnosis import rules
from slurm_guard.store import fleet

if TYPE_CHECKING:
    from slurm_guard.diagnosis import Evidence
    from slurm_guard.store import Store
    from slurm_guard.store.fleet import Elsewhere, Peers
    from slurm_guard.store.model import ActionRow, JobRun


class StoreFleet:
    """The store's answers for one run of a job."""

    def __init__(self, store: Store, run: JobRun) -> None:
        self._store = store
        self._run = run

    def peers(self, one: Evidence) -> Peers:
        """How other nodes of the cluster, the job's own first, judged the same check near that time."""
        start, end = one.at - rules.PEERS_MS, one.at + rules.PEERS_MS
        check, device = one.finding.check, one.finding.device
        near = [share.node for share in self._run.shares]
        return fleet.peers(self._store, self._run.cluster, check, device, start, end, one.node, near)

    def elsewhere(self, one: Evidence) -> Elsewhere:
        """Other jobs with the same fault on the same device within a week."""
        return fleet.same_fault_in_other_jobs(
            self._store, self._run.cluster, one.node, one.finding.fault, one.finding.device,
            self._run.job_id, one.at - rules.HISTORY_MS, one.at + rules.HISTORY_MS,
        )  # fmt: skip

    def last_change(self, node: str) -> ActionRow | None:
        """Our last drain or resume of a node that was done."""
        return fleet.last_change(self._store, node, self._run.cluster)
