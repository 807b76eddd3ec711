"""What the tests run of the simulation, and what finds each mutant there."""

from __future__ import annotations

SOUND = 20
"""The tests run the seeds from 1 up to this one."""

BATCHES = 2
"""In how many processes."""

SEEDS = 40
"""Up to which seed a mutant is looked for that its own seed does not find any more."""

FOUND_BY = {
    "no-epoch-check": 5,
    "no-divergence-check": 1,
    "isr-too-early": 1,
    "isr-without-epoch-start": 13,
    "high-watermark-ahead": 1,
    "high-watermark-by-one": 1,
    "high-watermark-by-committed-isr": 4,
    "truncation-to-high-watermark": 1,
    "stale-controller": 7,
    "min-isr-ignored": 1,
    "unclean-elections": 2,
    "no-sync": 12,
    "made-elsewhere": 32,
    "unmissed": 1,
    "leads-with-nothing": 2,
    "dead-isr-shrinks": 1,
    "no-stable-offset": 1,
    "no-sequences": 1,
    "inferred-success": 3,
}
"""The first seed that finds a mutant, when this was written: it may move whenever the broker changes."""
