"""The soak's verdict: what passes, and that each kind of decay is seen."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from benchmarks.soak.verdict import Line, judge, percentile, slope

Row = dict[str, float]
HOUR = 3600


def rows(change: Callable[[Row], object] = lambda row: None, seconds: int = HOUR) -> list[Row]:
    """A run that is as it should be, with noise; `change` spoils it."""
    rng = random.Random(7)
    found = []
    for second in range(5, seconds, 5):
        row = {
            "s": float(second),
            "rss_mib": 60.0 + rng.uniform(-2, 2) - (20 if second < 300 else 0),
            "files": 100 + rng.randrange(20),
            "threads": 5.0,
            "stalls": 3.0,
            "starved_stalls": 3.0,
            "stall_ms_max": 70.0,
            "fetch_n": 200.0,
            "fetch_p99_ms": rng.uniform(1, 3),
        }
        change(row)
        found.append(row)
    return found


def bad(lines: list[Line]) -> list[str]:
    return [line.subject for line in lines if not line.well]


def test_a_run_that_stays_as_it_was() -> None:
    assert bad(judge(rows(), ["fetch"], {"exit code": 0})) == []
    assert bad(judge(rows(seconds=300), ["fetch"], {})) == []


@pytest.mark.parametrize(
    ("change", "subject"),
    [
        (lambda row: row.update(rss_mib=row["rss_mib"] + row["s"] / HOUR * 15), "its growth"),
        (lambda row: row.update(rss_mib=151.0), "resident memory"),
        (lambda row: row.update(files=row["files"] + row["s"] / HOUR * 20), "open files"),
        (lambda row: row.update(threads=5 + row["s"] // 600), "threads"),
        (lambda row: row.update(fetch_p99_ms=row["fetch_p99_ms"] + row["s"] / 600), "fetch: p99"),
        (lambda row: row.update(fetch_p99_ms=math.nan), "fetch: p99"),
        (lambda row: row.update(stalls=4.0), "stalls"),
    ],
)
def test_each_decay_is_seen(change: Callable[[Row], object], subject: str) -> None:
    (found,) = bad(judge(rows(change), ["fetch"], {}))
    assert found.startswith(subject)


def test_what_is_rare_may_vary_more() -> None:
    def doubled(row: Row) -> None:
        row["fetch_p99_ms"] = 10.0 if row["s"] < HOUR / 2 else 20.0

    assert bad(judge(rows(doubled), ["fetch"], {})) != []
    assert bad(judge(rows(lambda row: (doubled(row), row.update(fetch_n=2.0))), ["fetch"], {})) == []


def test_failures_and_too_short_a_run() -> None:
    assert bad(judge(rows(), ["fetch"], {"produce_plainly": 2})) == ["failed: produce_plainly"]
    assert bad(judge(rows(seconds=12), ["fetch"], {})) == ["samples"]
    assert bad(judge([], [], {})) == ["samples"]


def test_percentiles_and_slopes() -> None:
    assert percentile([3.0, 1.0, 2.0, 4.0], 0.5) == 3.0
    assert percentile([1.0], 0.99) == 1.0
    assert math.isnan(percentile([], 0.5))
    assert slope([(0, 1), (1, 3), (2, 5)]) == 2
    assert slope([(1, 1), (1, 3)]) == slope([(1, 1)]) == 0
