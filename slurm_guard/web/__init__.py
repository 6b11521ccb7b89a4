"""Floor 8: what users read through the collector."""
