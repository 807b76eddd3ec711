"""Typed configs, and the table of topic configs."""
