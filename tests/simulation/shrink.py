"""Finds fewer and shorter faults that still break an invariant."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .faults import Fault
from .run import Outcome, simulate

LEAST_S = 0.1

Simulate = Callable[[int, Sequence[Fault]], Outcome]


def shrink(outcome: Outcome, run: Simulate = simulate) -> Outcome:
    """Leave out faults, then shorten them, as long as any invariant is still broken.

    Args:
        outcome: that of a seed that fails.
        run: runs a seed with faults.

    Returns:
        The outcome of the shortest schedule that was found.
    """
    best = outcome
    size = max(1, len(best.faults) // 2)
    while size:
        at = 0
        while at < len(best.faults):
            tried = run(best.seed, [*best.faults[:at], *best.faults[at + size :]])
            if tried.problems:
                best = tried
            else:
                at += size
        size //= 2
    for at in range(len(best.faults)):
        while (lasts_s := best.faults[at].lasts_s) > LEAST_S:
            shorter = best.faults[at]._replace(lasts_s=round(lasts_s / 2, 3))
            tried = run(best.seed, [*best.faults[:at], shorter, *best.faults[at + 1 :]])
            if not tried.problems:
                break
            best = tried
    return best
