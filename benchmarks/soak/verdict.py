"""What a soak has to show: pure functions from samples to verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

MIB = 1024 * 1024

#: Share of the run after which it is judged: caches, sessions, segments and offsets have filled by then.
WARM_UP = 0.25
MOST_RSS_MIB = 150.0
#: What the fitted line may gain: noise of the allocator in a short run, per hour in a long one.
MOST_GROWTH_MIB = 4.0
MOST_GROWTH_MIB_PER_HOUR = 8.0
MOST_MORE_FILES = 8.0
#: By how much the median of a kind's p99 may rise from the first third that counts to the last.
MOST_P99_RATIO = 1.5
MOST_P99_MORE_MS = 2.0
#: The same for what happens so rarely that the p99 of a sample is its longest one or two.
RARE = 10
MOST_P99_RATIO_OF_RARE = 2.5


class Line(NamedTuple):
    """One judgement."""

    subject: str
    found: str
    bound: str
    well: bool


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values are; NaN of none."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The least-squares line's rise per unit of x; 0 for fewer than two different x."""
    if len(points) < 2:
        return 0.0
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def judge(
    samples: Sequence[Mapping[str, float]], kinds: Sequence[str], failures: Mapping[str, int]
) -> list[Line]:
    """Judge a run.

    Args:
        samples: in the order of time: `s` since the start, `rss_mib`, `files`, `threads`, `stalls`,
            `starved_stalls`, `stall_ms_max`, and per kind of request `KIND_n` and `KIND_p99_ms`.
        kinds: the kinds of requests.
        failures: what went wrong in the load, by name and number.
    """
    whole = samples[-1]["s"] if samples else 0.0
    steady = [one for one in samples if one["s"] >= whole * WARM_UP]
    if len(steady) < 3:
        return [Line("samples", str(len(steady)), "3 at least", False)]
    hours = (steady[-1]["s"] - steady[0]["s"]) / 3600
    growth = slope([(one["s"] / 3600, one["rss_mib"]) for one in steady]) * hours
    most_growth = max(MOST_GROWTH_MIB, MOST_GROWTH_MIB_PER_HOUR * hours)
    files = slope([(one["s"] / 3600, one["files"]) for one in steady]) * hours
    threads = steady[-1]["threads"] - steady[0]["threads"]
    lines = [
        Line(
            "resident memory at the end",
            f"{steady[-1]['rss_mib']:.1f} MiB",
            f"{MOST_RSS_MIB:.0f} MiB",
            steady[-1]["rss_mib"] <= MOST_RSS_MIB,
        ),
        Line(
            "its growth after the warm-up (fitted)",
            f"{growth:+.2f} MiB in {hours * 60:.0f} min",
            f"{most_growth:.0f} MiB",
            growth <= most_growth,
        ),
        Line(
            "open files, growth (fitted)", f"{files:+.1f}", f"{MOST_MORE_FILES:.0f}", files <= MOST_MORE_FILES
        ),
        Line("threads, growth", f"{threads:+.0f}", "2", threads <= 2),
    ]
    third = len(steady) // 3
    for kind in kinds:
        first = _typical([one.get(f"{kind}_p99_ms") for one in steady[:third]])
        last = _typical([one.get(f"{kind}_p99_ms") for one in steady[-third:]])
        if first is None or last is None:
            lines.append(Line(f"{kind}: p99", "no samples", "some", False))
            continue
        often = (_typical([one.get(f"{kind}_n") for one in steady]) or 0) >= RARE
        ratio = MOST_P99_RATIO if often else MOST_P99_RATIO_OF_RARE
        most = max(first * ratio, first + MOST_P99_MORE_MS)
        lines.append(
            Line(
                f"{kind}: p99, first third → last",
                f"{first:.2f} → {last:.2f} ms",
                f"{most:.2f} ms",
                last <= most,
            )
        )
    longest = max(one["stall_ms_max"] for one in samples)
    stalls, starved = samples[-1]["stalls"], samples[-1]["starved_stalls"]
    found = f"{stalls - starved:.0f} (and {starved:.0f} without a processor)"
    lines.append(Line("stalls of the loop over 50 ms", found, "0", stalls == starved))
    lines.append(Line("the longest of all stalls", f"{longest:.0f} ms", "", True))
    lines += [Line(f"failed: {name}", str(number), "0", number == 0) for name, number in failures.items()]
    return lines


def _typical(values: Sequence[float | None]) -> float | None:
    present = [one for one in values if one is not None and one == one]
    return percentile(present, 0.5) if present else None
