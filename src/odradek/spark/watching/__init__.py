"""Queries watched: their progress as lines, figures and listeners."""
