"""Finds fewer and shorter faults that still break an invariant."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .faults import Fault

LEAST_S = 0.1


def shrink_schedule(faults: Sequence[Fault], is_broken: Callable[[Sequence[Fault]], bool]) -> Sequence[Fault]:
    """Leave out faults, then shorten them, as long as an invariant is still broken.

    Args:
        faults: a schedule that breaks one.
        is_broken: whether another does, with the same seed.
    """
    best = list(faults)
    size = max(1, len(best) // 2)
    while size:
        at = 0
        while at < len(best):
            fewer = best[:at] + best[at + size :]
            if is_broken(fewer):
                best = fewer
            else:
                at += size
        size //= 2
    for at in range(len(best)):
        while best[at].lasts_s > LEAST_S:
            shorter = list(best)
            shorter[at] = best[at]._replace(lasts_s=round(best[at].lasts_s / 2, 3))
            if not is_broken(shorter):
                break
            best = shorter
    return best
