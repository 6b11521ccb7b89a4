"""Floor 3: the only door to Slurm."""
