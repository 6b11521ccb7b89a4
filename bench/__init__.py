"""Figures, not tests: what the hot path, the store and the CLI cost here, beside their budgets (`make bench`)."""
