"""What the tests run of the simulation, and what finds each mutant there."""

from __future__ import annotations

SEEDS = 40
"""The tests run the seeds from 1 up to this one."""

BATCHES = 4
"""In how many processes."""

FOUND_BY = {
    "no-divergence-check": 1,
    "isr-too-early": 2,
    "high-watermark-ahead": 1,
    "high-watermark-by-one": 1,
    "high-watermark-by-committed-isr": 4,
    "truncation-to-high-watermark": 4,
    "min-isr-ignored": 2,
    "unclean-elections": 5,
    "no-sync": 12,
    "unmissed": 30,
    "no-stable-offset": 1,
    "no-sequences": 1,
}
"""The first seed that finds a mutant, when this was written: it may move whenever the broker changes."""

NOT_FOUND = (
    "no-epoch-check",
    "stale-controller",
    "isr-without-epoch-start",
)
"""Mutants that none of the sample's seeds finds: docs/simulation.md says which rule stands behind two."""
