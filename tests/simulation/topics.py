"""The topics of a simulation."""

from __future__ import annotations

from odradek.testing.workload.plan import BACK, IN, OUT

EVENTS = "events"
PASSING = "passing"
"""It is deleted and made again; nobody asks what became of its records."""

PARTITIONS = {EVENTS: 2, IN: 1, OUT: 1, BACK: 1}
