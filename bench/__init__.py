"""Figures, not tests: what hooks, store and CLI cost here, beside their budgets (`make bench`)."""
