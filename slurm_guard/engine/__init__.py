"""Floor 4: what slurmd starts. Hot: standard library only, Python 3.9."""
