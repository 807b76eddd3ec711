"""Measurements beside peers: `python -m benchmarks` or `make bench`; README.md says how and what."""
