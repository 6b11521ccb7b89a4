"""Proof before a node returns: the full healthcheck, run on it as a job while nobody else may use it.

Slurm starts no job on a drained node, so the drain must end before the proof. Until it is there, a
reservation fences the node off: it has no end, its name holds the drain's reason, and it goes only when the
node is proven or drained again. Whoever is killed in between leaves the fence standing, and the next call
drains the node again before it takes the fence away.
"""

from slurm_guard.verify.proof import Proof
from slurm_guard.verify.service import Subject, Verified, verify

__all__ = ["Proof", "Subject", "Verified", "verify"]
