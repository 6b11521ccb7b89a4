"""Floor 7: the one place that nodes send their records to, and get their plan from (docs/collector.md)."""
