"""Floor 5: the configuration, from TOML to the compiled node plan. The only place that imports pydantic."""
