"""The rules of a verdict as plain tables. Times are milliseconds.

Attribution follows the rule that Meta published for its clusters (Revisiting Reliability, HPCA 2025): a cause
counts if it was seen in the last 10 minutes of a job or within 5 minutes after its end.
"""

from __future__ import annotations

from typing import NamedTuple

from slurm_guard.core.policy import DRAIN_TIERS

BEFORE_END_MS = 10 * 60_000
AFTER_END_MS = 5 * 60_000
#: Other nodes' runs that are compared with a suspect's lie within this of it.
PEERS_MS = 10 * 60_000
#: The same fault in other jobs is looked for so far back and ahead.
HISTORY_MS = 7 * 86_400_000

#: Faults that follow another one (a killed process, a torn channel): never a first cause.
ECHOES = frozenset(("gpu_xid.45", "gpu_xid.43"))

#: What a job that ended badly for another reason leaves behind: a cause only where nothing else is one.
AFTERMATH = frozenset(("gpu_processes.leftover", "gpu_processes.memory"))

#: How strongly evidence speaks, weakest first.
GRADES = ("weak", "medium", "strong")
CONFIDENCE = {"strong": "high", "medium": "medium", "weak": "low"}
LEVELS = ("low", "medium", "high")

#: Checks of things that many nodes share, and whose fault it is when many nodes see it.
SHARED_CHECKS = (("fs_", "storage"), ("ib_", "fabric"))

#: So many other nodes with the same hung or full storage at one time mean one of its servers, not the nodes.
FEW_NODES = 2


class Outcome(NamedTuple):
    """What a state of Slurm's means where no hook saw a fault."""

    blame: str
    confidence: str
    what: str
    safe: str
    why: str


#: By Slurm's state, for runs in which nothing on record explains it.
STATES = {
    "OUT_OF_MEMORY": Outcome(
        "job", "high", "The job used more memory than it asked for", "no",
        "it will run out of memory again: ask for more, or use less",
    ),
    "TIMEOUT": Outcome(
        "job", "medium", "The job ran into its time limit", "no",
        "it needs a longer limit, or to continue from a checkpoint",
    ),
    "DEADLINE": Outcome("job", "medium", "The job missed its deadline", "no", "its deadline has passed"),
    "CANCELLED": Outcome(
        "job", "medium", "The job was cancelled by its user or an admin", "yes", "nothing else is on record",
    ),
    "PREEMPTED": Outcome(
        "none", "high", "The job was preempted by one of higher priority", "yes", "preemption is no fault",
    ),
    "REQUEUED": Outcome(
        "unknown", "low", "The run was requeued", "yes", "Slurm starts it again by itself",
    ),
    "NODE_FAIL": Outcome(
        "node", "medium", "Slurm lost a node of the job", "unknown",
        "which node, and why, is not on record: see slurmctld's log",
    ),
    "BOOT_FAIL": Outcome(
        "node", "medium", "A node did not boot for the job", "yes", "Slurm takes another node",
    ),
}  # fmt: skip

#: States that say themselves why the run ended: only strong evidence explains it better.
TELLING = frozenset(("CANCELLED", "DEADLINE", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"))

#: Is it safe to resubmit, and why, by blame; for `node` it depends on whether the node is still in service.
SAFE = {
    "none": ("yes", "nothing was wrong"),
    "unknown": ("unknown", "the cause is not known"),
    "job": ("no", "it will fail again until the job itself is changed"),
    "storage": ("no", "every node meets the same storage: wait until it answers again"),
    "fabric": ("unknown", "other nodes share the fabric: it is safe once its links are clean again"),
}

#: The same for a job that ended well all the same.
SAFE_ALL_THE_SAME = {
    "job": ("yes", "it ended well; the fault was the job's own and may end it the next time"),
    "unknown": ("yes", "it ended well"),
}

#: What a user does next, by blame, where the finding has no remedy of its own.
NEXT = {
    "node": "Look at the node: `sguard node {node}`.",
    "job": "Look at the job's own output and code.",
    "fabric": "Look at the fabric: `sguard node {node}`, then the switch ports of the job's nodes.",
    "storage": "Look at the file server before anything is resubmitted.",
    "unknown": "Look at the job's own output; on the nodes nothing explains it.",
    "none": "Nothing to do.",
}
NEXT_MISSING = "Ingest the missing runs and look again; meanwhile look at the job's own output."


def tier_rank(tier: str | None) -> int:
    """0 for faults that take a node out of service, then JOB, WARN, and the rest."""
    if tier in DRAIN_TIERS:
        return 0
    return {"JOB": 1, "WARN": 2}.get(tier or "", 3)


def highest_grade(tier: str | None, status: str) -> str:
    """The most that a finding of this tier and status can say, wherever it is seen."""
    if tier_rank(tier) <= 1:
        return "strong" if status in ("fail", "timeout") else "weak"
    return "medium" if status in ("fail", "timeout") and tier == "WARN" else "weak"
