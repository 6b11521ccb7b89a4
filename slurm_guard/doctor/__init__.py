"""Floor 7: what keeps slurm_guard from working on this host, each thing with its remedy."""
