"""slurm_guard: the guard that sits inside Slurm on GPU clusters."""

__version__ = "0.1.0"
