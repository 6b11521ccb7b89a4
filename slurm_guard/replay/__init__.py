"""What a policy would have done on the records of a time: the nodes' own rules, run over the store."""

from slurm_guard.replay.run import replay
from slurm_guard.replay.world import Question

__all__ = ["Question", "replay"]
