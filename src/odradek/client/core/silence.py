"""The time for which a broker may say nothing until somebody else is asked about it.

A broker that hangs keeps its connections open, and what waits for it would wait for `request.timeout.ms`.
But the cluster may know better: when the broker's session has ended, others lead, and it is no longer named
among the live brokers. So who waits for a silent broker asks another one, from time to time, and gives the
connection up when that one does not name it any more. A broker that only takes its time stays among the live
ones, and is waited for.
"""

from __future__ import annotations

SILENCE_MS = 1_000.0
"""After so long without a byte of an answer that is due, others are asked."""

_LOOK_MS = 100.0
_SHARE = 0.04


def next_look_ms(silent_ms: float) -> float:
    """Return how long to wait until one asks again about a broker that has been silent for so long.

    What it adds to the time of an outage is a twenty-fifth at most, or a tenth of a second.
    """
    return max(_LOOK_MS, _SHARE * silent_ms)


def silent_and_dead(peer: str, silent_ms: float) -> str:
    """The message of an error about a broker that is waited for no more."""
    return f"{peer} has not answered for {silent_ms:.0f} ms, and is not among the live brokers any more"
