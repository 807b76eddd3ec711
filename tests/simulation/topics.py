"""The topics of a simulation."""

from __future__ import annotations

from odradek.testing.workload.plan import BACK, IN, OUT

EVENTS = "events"
PASSING = "passing"
"""It is deleted and made again; nobody asks what became of its records."""

SMALL, SMALL_BYTES = "small", 300
"""A topic whose max.message.bytes is below what its producer fills."""

PARTITIONS = {EVENTS: 2, IN: 1, OUT: 1, BACK: 1}
"""What faults may befall."""

CHECKED = {**PARTITIONS, SMALL: 1}
"""The topics that the history is of."""
