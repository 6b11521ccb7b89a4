"""Floor 5: fetch what lies in nodes' spools over SSH (docs/collect.md). Alone in using paramiko."""
