"""One run of the demo, from the broker's start to the plot."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from odradek.client import RawReader
from odradek.demo import pipeline, report
from odradek.demo.checks import Books, committed_offsets
from odradek.demo.feed import COUNTERS, REQUESTS, Feed, FollowedFile, broker_requests, machine_counters
from odradek.demo.server import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

_COUNTER_INTERVAL_S = 0.1
_REQUEST_INTERVAL_S = 0.25
_DRAIN_SECONDS = 120


class DemoError(RuntimeError):
    """The demo could not do what it shows; the message says what went wrong."""


class Demo:
    """One run.

    Args:
        folder: where everything is kept for the next run: the log, the checkpoint, the windows, the plot.
        seconds: how long events are produced.
        window_s: the length of a window.
    """

    def __init__(self, console: Console, folder: Path, seconds: float, window_s: int) -> None:
        self._console = console
        self._folder = folder
        self._seconds = seconds
        self._window_s = window_s
        self._books = [Books(COUNTERS), Books(REQUESTS)]
        self._ends_before: dict[str, int] = {}
        self._batches: dict[int, dict[str, int]] = {}
        self._batch_ms = 0.0

    def run(self) -> None:
        """Start the broker, the feeds and Spark, watch them until they end, and show the books.

        Raises:
            DemoError: the books do not balance.
            Exception: what the parts raise.
        """
        say = self._console.print
        self._folder.mkdir(parents=True, exist_ok=True)
        began = datetime.now(UTC)
        with contextlib.ExitStack() as stack:
            server = Server(self._folder)
            stack.callback(server.stop)
            say(f"broker: {server.address}, its data in {self._folder / 'broker'}")
            self._open_books(server.address)
            with self._console.status("starting Spark"):
                spark = stack.enter_context(spark_session(self._folder))
            say(f"Spark {spark.version} is up; its log is in {self._folder / 'spark.log'}")
            feeds = self._start_feeds(server)
            query = pipeline.start(spark, server.address, self._folder, self._window_s)
            stack.callback(query.stop)
            try:
                self._watch(server, feeds, query)
            finally:
                for feed in feeds:
                    feed.stop()
            self._drain(server, feeds, query)
        self._show(began)

    def _open_books(self, servers: str) -> None:
        """Count what is in the log already, and how much of it Spark has yet to read."""
        self._create_topics(servers)
        read_before = committed_offsets(pipeline.checkpoint_folder(self._folder))
        self._ends_before = self._ends(servers)
        for books in self._books:
            books.carried_over = self._ends_before[books.topic] - read_before.get(books.topic, 0)
        if read_before:
            self._console.print("continuing from the checkpoint of an earlier run")

    def _create_topics(self, servers: str) -> None:
        from odradek.client import Admin, NewTopic

        topics = [*(books.topic for books in self._books), pipeline.WINDOWS]
        with RawReader(servers) as reader:
            there = reader.topics()
        with Admin(bootstrap_servers=servers) as admin:
            missing = [NewTopic(name, num_partitions=2) for name in topics if name not in there]
            if missing:
                admin.create_topics(missing)

    def _ends(self, servers: str) -> dict[str, int]:
        """Return how many events each topic holds: nothing is ever deleted here, so that ends count them."""
        with RawReader(servers) as reader:
            ends = reader.end_offsets(
                [(b.topic, number) for b in self._books for number in reader.partitions_for(b.topic)]
            )
        totals: dict[str, int] = {}
        for (topic, _), end in ends.items():
            totals[topic] = totals.get(topic, 0) + end
        return totals

    def _start_feeds(self, server: Server) -> list[Feed]:
        log = FollowedFile(server.request_log)
        feeds = [
            Feed(server.address, COUNTERS, machine_counters, _COUNTER_INTERVAL_S),
            Feed(server.address, REQUESTS, broker_requests(log), _REQUEST_INTERVAL_S),
        ]
        for feed in feeds:
            feed.start()
        return feeds

    def _watch(self, server: Server, feeds: list[Feed], query: "StreamingQuery") -> None:
        """Show progress until the time is up."""
        until = time.monotonic() + self._seconds
        with report.Progress(self._console, self._seconds) as progress:
            while time.monotonic() < until:
                self._take_note(server.address, feeds, query)
                server.check()
                rows = report.read_windows(pipeline.parquet_folder(self._folder))
                progress.show(
                    self._books, len(self._batches), self._batch_ms, len(rows), rows[-1] if rows else None
                )
                time.sleep(0.5)

    def _drain(self, server: Server, feeds: list[Feed], query: "StreamingQuery") -> None:
        """Let Spark read what was produced last, and close the books."""
        deadline = time.monotonic() + _DRAIN_SECONDS
        self._console.print("the feeds have ended, Spark reads the rest")
        while True:
            self._take_note(server.address, feeds, query)
            if all(books.read >= books.carried_over + books.in_log for books in self._books):
                break
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        query.processAllAvailable()
        self._take_note(server.address, feeds, query)

    def _take_note(self, servers: str, feeds: list[Feed], query: "StreamingQuery") -> None:
        """Bring the books up to date.

        Raises:
            DemoError: a feed or the query has failed.
        """
        for feed in feeds:
            if feed.failure is not None:
                raise DemoError(f"producing to {feed.topic} failed: {feed.failure}") from feed.failure
        if (failure := query.exception()) is not None:
            raise DemoError(f"the Spark query failed: {_shortened(str(failure))}")
        for progress in query.recentProgress:
            self._batches[progress.batchId] = {
                name: int(row["rows"]) for name, row in progress.observedMetrics.items()
            } or self._batches.get(progress.batchId, {})
            self._batch_ms = progress.batchDuration
        ends = self._ends(servers)
        for books, feed in zip(self._books, feeds, strict=True):
            books.produced = feed.acknowledged
            books.in_log = ends[books.topic] - self._ends_before[books.topic]
            name = pipeline.observed(books.topic)
            books.read = sum(counts.get(name, 0) for counts in self._batches.values())

    def _show(self, began: datetime) -> None:
        """Tables, plot, verdict."""
        rows = report.read_windows(pipeline.parquet_folder(self._folder))
        recent = report.since(rows, began)
        print_ = self._console.print
        if recent:
            print_(report.windows_table(recent))
            picture = self._folder / "demo.png"
            report.plot(recent, picture)
            print_(f"plot: {picture.absolute()}", soft_wrap=True)
        print_(
            f"{len(rows)} windows in {pipeline.parquet_folder(self._folder)}, and in topic {pipeline.WINDOWS}"
        )
        print_(report.books_table(self._books))
        problems = [books.problem for books in self._books if books.problem]
        if not recent:
            problems.append("no window was finished: let it run longer (--seconds)")
        if problems:
            raise DemoError("; ".join(problems))


def _shortened(text: str) -> str:
    """A Spark error without the plans and stacks that follow it."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith((" ", "\t"))]
    return "\n".join(lines[:6])


@contextlib.contextmanager
def spark_session(folder: Path) -> Iterator["SparkSession"]:
    """A session whose JVM, and Python workers, write their logs to a file in `folder`."""
    from odradek.spark import session

    with standard_error_to(folder / "spark.log"):
        spark = session(
            "odradek demo",
            "local[2]",
            conf={
                # Two minutes of small batches end before the second compiler has paid for itself.
                "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
                "spark.sql.shuffle.partitions": 2,
                "spark.sql.streaming.numRecentProgressUpdates": 10_000,
                "spark.sql.warehouse.dir": str(folder / "warehouse"),
            },
        )
    try:
        yield spark
    finally:
        spark.stop()


@contextlib.contextmanager
def standard_error_to(path: Path) -> Iterator[None]:
    """Send the standard error of what is started in this block to `path`."""
    sys.stderr.flush()
    kept = os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def exit_code(error: BaseException | None) -> int:
    """0 for a run whose books balance, 130 for one that was interrupted, else 1."""
    if error is None:
        return 0
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def run(console: Console, folder: Path, seconds: float, window_s: int) -> int:
    """Run the demo; returns the exit code, having said what it means."""
    failure: Any = None
    try:
        Demo(console, folder, seconds, window_s).run()
        console.print("[green]events produced = events in the log = events read by Spark[/]")
    except KeyboardInterrupt as stopped:
        failure = stopped
        console.print("stopped; the next run goes on from here")
    except Exception as error:
        failure = error
        console.print(f"[red]the demo failed:[/] {error}", soft_wrap=True)
    return exit_code(failure)
