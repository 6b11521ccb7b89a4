"""Fuzzing of every parser that reads bytes from the network or from users: `python -m fuzz NAME`.

With atheris (coverage-guided, `make fuzz` installs it) or, where it cannot be installed, by plain mutation of
the seeds, which says so.
"""
