"""Floor 2: one health check per file; the file name is the check's name."""
