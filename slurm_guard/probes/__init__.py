"""Floor 1: one source of facts per module. Hot: standard library and the vendor's binding only."""
