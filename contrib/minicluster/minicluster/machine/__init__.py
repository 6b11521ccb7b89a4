"""The simulated machine of a node: a model, and one module per part that renders it as files."""
