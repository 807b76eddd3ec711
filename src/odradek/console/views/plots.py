"""The lines of a plot, as SVG draws them. A time at which a value was not known is a gap, and never a 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odradek.console.views.history import Point
from odradek.console.views.texts import rate_text, time_text


@dataclass(frozen=True)
class Plot:
    """A plot.

    Attributes:
        width, height: of the view box.
        lines: the points of each unbroken line, for `polyline`.
        dots: places of values between two gaps, which make no line.
        top: the value at the upper edge; the lower edge is 0.
        begin, end: the times at its sides.
        told: what it shows, in words.
    """

    width: int
    height: int
    lines: tuple[str, ...]
    dots: tuple[tuple[float, float], ...]
    top: str
    begin: str
    end: str
    told: str


def plot(points: Sequence[Point], noun: str, *, width: int = 640, height: int = 160) -> Plot | None:
    """Return the plot of values over time; None where there are not two that are known.

    Args:
        points: the oldest first.
        noun: names the values, for readers who do not see the plot.
        width, height: of the view box.
    """
    known = [point.value for point in points if point.value is not None]
    if len(known) < 2:
        return None
    begin_ms, end_ms = points[0].time_ms, points[-1].time_ms
    span_ms = max(1, end_ms - begin_ms)
    top = max(known) or 1
    runs: list[list[tuple[float, float]]] = [[]]
    for point in points:
        if point.value is None:
            runs.append([])
            continue
        x = round((point.time_ms - begin_ms) / span_ms * width, 1)
        runs[-1].append((x, round(height - point.value / top * height, 1)))
    gaps = len(points) - len(known)
    told = (
        f"{noun} from {time_text(begin_ms)} to {time_text(end_ms)} UTC: at first {rate_text(known[0])}, at "
        f"last {rate_text(known[-1])}, at least {rate_text(min(known))}, at most {rate_text(max(known))}"
        + (f"; {gaps} times not known" if gaps else "")
    )
    return Plot(
        width,
        height,
        tuple(" ".join(f"{x},{y}" for x, y in run) for run in runs if len(run) > 1),
        tuple(run[0] for run in runs if len(run) == 1),
        rate_text(top),
        time_text(begin_ms)[11:19],
        time_text(end_ms)[11:19],
        told,
    )
