"""The output of the demo: progress while it runs, then the windows as a table, the books, and a plot."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from odradek.demo.checks import Books

Row = dict[str, Any]
_SECONDS_BETWEEN_LINES = 5


class Progress:
    """Progress on a terminal, in place; elsewhere a line now and then.

    Use as a context manager; call `show` as often as you like.
    """

    def __init__(self, console: Console, seconds: float) -> None:
        self._console = console
        self._seconds = seconds
        self._began = time.monotonic()
        self._last_line = 0.0
        self._live = Live(console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> "Progress":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def show(
        self, books: Sequence[Books], batches: int, batch_ms: float, windows: int, latest: Row | None
    ) -> None:
        """The state of the run; `latest` is the newest finished window."""
        elapsed = time.monotonic() - self._began
        if self._console.is_terminal:
            self._live.update(self._table(elapsed, books, batches, batch_ms, windows, latest))
        elif elapsed - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = elapsed
            counts = ", ".join(f"{b.topic} {b.produced} produced {b.read} read" for b in books)
            line = f"{elapsed:4.0f} s  {batches} batches, {windows} windows; {counts}"
            self._console.print(line, soft_wrap=True)

    def _table(
        self,
        elapsed: float,
        books: Sequence[Books],
        batches: int,
        batch_ms: float,
        windows: int,
        latest: Row | None,
    ) -> Table:
        left = max(0.0, self._seconds - elapsed)
        table = Table(title=f"{elapsed:.0f} s, {left:.0f} s to go", title_justify="left")
        table.add_column("topic")
        for name in ("produced", "in the log", "read by Spark"):
            table.add_column(name, justify="right")
        for b in books:
            table.add_row(b.topic, f"{b.produced:,}", f"{b.carried_over + b.in_log:,}", f"{b.read:,}")
        table.caption = f"Spark: {batches} batches, the last {batch_ms:.0f} ms; {windows} windows finished"
        if latest is not None:
            table.caption += (
                f"; the last: processor {latest['cpu_percent'] or 0:.0f} %, {latest['requests']} requests"
            )
        return table


def windows_table(rows: Sequence[Row], most: int = 20) -> Table:
    """The last `most` windows."""
    table = Table(
        title=f"The last {min(most, len(rows))} of {len(rows)} windows, times in UTC", title_justify="left"
    )
    table.caption = (
        "memory used in MiB, written to disk and sent over the network in KiB/s,\n"
        "the broker's requests, those of them that produce and fetch, and their mean time in ms"
    )
    table.add_column("start", no_wrap=True)
    for name in ("cpu %", "MiB", "disk", "net", "requests", "produce", "fetch", "ms"):
        table.add_column(name, justify="right")
    for row in rows[-most:]:
        table.add_row(
            row["window_start"].strftime("%H:%M:%S"),
            _number(row["cpu_percent"], 1, ".1f"),
            _number(row["memory_bytes"], 1 << 20, ".0f"),
            _number(row["disk_written_bytes_per_s"], 1024, ".0f"),
            _number(row["network_bytes_per_s"], 1024, ".0f"),
            str(row["requests"]),
            str(row["produce_requests"]),
            str(row["fetch_requests"]),
            _number(row["request_ms"], 1, ".2f"),
        )
    return table


def books_table(books: Sequence[Books]) -> Table:
    """Do the counts agree?"""
    table = Table(title="Events", title_justify="left")
    table.add_column("topic", no_wrap=True)
    for name in ("carried over", "produced", "in the log", "read by Spark", "agree"):
        table.add_column(name, justify="right")
    for b in books:
        agree = "[green]yes[/]" if b.problem is None else "[red]NO[/]"
        table.add_row(
            b.topic, f"{b.carried_over:,}", f"{b.produced:,}", f"{b.in_log:,}", f"{b.read:,}", agree
        )
    return table


def plot(rows: Sequence[Row], path: Path) -> None:
    """The windows as a picture: the processor above, the broker's requests below."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    times = [row["window_start"] for row in rows]
    figure, (above, below) = pyplot.subplots(2, 1, figsize=(10, 6), sharex=True, layout="constrained")
    above.plot(times, [row["cpu_percent"] for row in rows], color="tab:blue", label="processor, %")
    above.set_ylabel("processor, %")
    above.set_ylim(bottom=0)
    memory = above.twinx()
    memory.plot(times, [(row["memory_bytes"] or 0) / (1 << 20) for row in rows], color="tab:green")
    memory.set_ylabel("memory, MiB", color="tab:green")
    below.plot(times, [row["produce_requests"] for row in rows], label="produce")
    below.plot(times, [row["fetch_requests"] for row in rows], label="fetch")
    below.plot(times, [row["requests"] for row in rows], label="all", color="grey", linestyle=":")
    below.set_ylabel("requests in a window")
    below.legend(loc="upper left")
    figure.suptitle("This machine and its broker, windowed by Spark")
    figure.autofmt_xdate()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def read_windows(folder: Path) -> list[Row]:
    """The finished windows in the Parquet files of `folder`, by their start; those of earlier runs too."""
    import pyarrow.parquet as pq

    rows: list[Row] = []
    for file in sorted(folder.glob("batch=*/*.parquet")):
        rows += pq.ParquetFile(file).read().to_pylist()
    for row in rows:
        start = row["window_start"]
        row["window_start"] = start if start.tzinfo else start.replace(tzinfo=UTC)
    return sorted(rows, key=lambda row: row["window_start"])


def since(rows: Sequence[Row], moment: datetime) -> list[Row]:
    """The windows that begin at or after `moment` (aware)."""
    return [row for row in rows if row["window_start"] >= moment]


def _number(value: float | None, unit: float, form: str) -> str:
    return "–" if value is None else format(value / unit, form)
