"""Real software of other ecosystems against odradek; what a machine lacks is skipped by name and reason."""
