"""Percentiles off buckets, beside those of the times themselves."""

from __future__ import annotations

from bisect import bisect_left

import pytest

from odradek.broker.metrics.histogram import BOUNDS_MS, WINDOW_S, Histogram, percentile

TIMES = [0.0, 0.01, 0.05, 0.07, 0.1, 0.15, 0.3, 0.8, 1.0, 1.5, 3, 5.0, 8, 15, 20, 30, 70, 150, 300, 700, 1000]


def test_each_time_falls_into_its_bucket() -> None:
    for elapsed_ms in [*TIMES, *BOUNDS_MS, 2000, 9e9]:
        histogram = Histogram()
        histogram.observe(elapsed_ms)
        assert histogram.counts.index(1) == bisect_left(BOUNDS_MS, elapsed_ms), elapsed_ms


@pytest.mark.parametrize("fraction", [0.5, 0.75, 0.95, 0.99])
def test_percentiles_are_within_their_bucket(fraction: float) -> None:
    histogram = Histogram()
    times = [number / 10 for number in range(1, 3000)]
    for elapsed_ms in times:
        histogram.observe(elapsed_ms)
    exact, told = times[int(fraction * len(times))], percentile(histogram.counts, fraction)
    assert bisect_left(BOUNDS_MS, exact) == bisect_left(BOUNDS_MS, told)
    assert histogram.total_ms == pytest.approx(sum(times))


def test_zeros_that_nobody_counted() -> None:
    counts = [0] * 15 + [1]
    assert percentile(counts, 0.5, zeros=9) == 0.0
    assert percentile(counts, 0.99, zeros=9) == BOUNDS_MS[-1]
    assert percentile([0] * 16, 0.99) == 0.0


def test_only_the_last_minutes_count() -> None:
    histogram = Histogram()
    histogram.observe(3000)
    assert sum(histogram.recent(1000.0)) == 1
    histogram.observe(1)
    assert sum(histogram.recent(1001.0)) == 2, "all since the start, at first"
    assert sum(histogram.recent(1061.0)) == 1, "what has come since the first look"
    for second in range(1100, 1100 + 2 * int(WINDOW_S), 10):
        recent = histogram.recent(float(second))
    assert sum(recent) == 0
