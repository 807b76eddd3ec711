"""`odradek producer-perf-test`: kafka-producer-perf-test."""

from __future__ import annotations

import random
import sys
import threading
import time
import uuid
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.tool import (
    UNREACHABLE_AFTER_MS,
    Tool,
    client_configs,
    command_config_option,
    echo_lines,
    key_values,
    metric_lines,
    read_properties,
)
from odradek.errors import OdradekError

if TYPE_CHECKING:
    from odradek import Producer

#: So many latencies are kept at most; of more records, every n-th one's.
MOST_LATENCIES = 500_000
#: How long a transaction lasts where only its id is given.
TRANSACTION_MS = 3000
#: A person who watches sees the count move so often.
PROGRESS_EVERY_S = 0.25


@dataclass
class Latencies:
    """Counts and latencies in milliseconds of what has been acknowledged. Filled by delivery callbacks.

    Attributes:
        expected: how many records there will be.
    """

    expected: int
    count: int = 0
    bytes: int = 0
    sum_ms: float = 0.0
    max_ms: float = 0.0
    failures: int = 0
    first_error: BaseException | None = None
    kept_ms: array[float] = field(default_factory=lambda: array("d"))
    lock: threading.Lock = field(default_factory=threading.Lock)
    _window: tuple[int, int, float] = (0, 0, 0.0)
    """Count, bytes and sum when `window` was called last: the window is what has been added since."""
    _window_max_ms: float = 0.0
    """The highest latency since then: a maximum cannot be told from two totals."""

    def record(self, latency_ms: float, size: int, error: BaseException | None) -> None:
        """Count one record that was acknowledged, or was not delivered."""
        with self.lock:
            if error is not None:
                self.failures += 1
                self.first_error = self.first_error or error
                return
            # As Kafka's tool samples: memory does not grow with the run.
            if self.count % (self.expected // MOST_LATENCIES + 1) == 0:
                self.kept_ms.append(latency_ms)
            self.count += 1
            self.bytes += size
            self.sum_ms += latency_ms
            self.max_ms = max(self.max_ms, latency_ms)
            self._window_max_ms = max(self._window_max_ms, latency_ms)

    def window(self, seconds: float) -> str:
        """Kafka's line for what has come since the last call, which is `seconds` ago."""
        with self.lock:
            count, size, sum_ms = self._window
            highest, self._window_max_ms = self._window_max_ms, 0.0
            self._window = (self.count, self.bytes, self.sum_ms)
            count, size, sum_ms = self.count - count, self.bytes - size, self.sum_ms - sum_ms
        return (
            f"{count} records sent, {count / seconds:.1f} records/sec ({size / seconds / 2**20:.2f} MB/sec), "
            f"{sum_ms / count if count else 0.0:.1f} ms avg latency, {highest:.1f} ms max latency."
        )

    def total(self, seconds: float) -> str:
        """Kafka's closing line."""
        with self.lock:
            ordered = sorted(self.kept_ms)
            kept = len(ordered)

            def percentile(of: float) -> int:
                return round(ordered[min(kept - 1, int(of * kept))]) if kept else 0

            return (
                f"{self.count} records sent, {self.count / seconds:f} records/sec "
                f"({self.bytes / seconds / 2**20:.2f} MB/sec), "
                f"{self.sum_ms / self.count if self.count else 0.0:.2f} ms avg latency, "
                f"{self.max_ms:.2f} ms max latency, "
                f"{percentile(0.5)} ms 50th, {percentile(0.95)} ms 95th, {percentile(0.99)} ms 99th, "
                f"{percentile(0.999)} ms 99.9th."
            )


@click.command(cls=Tool, name="producer-perf-test")
@click.option("--bootstrap-server", help="The brokers; also as bootstrap.servers in --command-property.")
@click.option("--topic", required=True, help="The topic to send to.")
@click.option("--num-records", type=click.IntRange(0), required=True, help="How many records.")
@click.option("--record-size", type=click.IntRange(1), help="Bytes of each value.")
@click.option("--payload-file", type=click.Path(exists=True, dir_okay=False), help="Values to choose from.")
@click.option("--payload-delimiter", default="\\n", show_default=True, help="What parts them in the file.")
@click.option("--payload-monotonic", is_flag=True, help="Values that count up from 0.")
@click.option("--throughput", type=float, required=True, help="Records per second at most; -1: no limit.")
@click.option("--producer-props", "--command-property", "properties", multiple=True, metavar="NAME=VALUE…",
              help="Producer configs.")  # fmt: skip
@command_config_option("--producer.config", "--command-config")
@click.option("--print-metrics", is_flag=True, help="Print the producer's metrics at the end.")
@click.option("--transactional-id", help="Send in transactions under this id; also as transactional.id in "
              "--command-property.  [default with --transaction-duration-ms: a random one]")  # fmt: skip
@click.option("--transaction-duration-ms", type=click.IntRange(1),
              help=f"Commit each one after so long.  [default with an id: {TRANSACTION_MS}]")  # fmt: skip
@click.option("--warmup-records", type=click.IntRange(0), default=0, show_default=True,
              help="So many first records are left out of a second summary.")  # fmt: skip
@click.option("--reporting-interval", type=click.IntRange(1), default=5000, show_default=True,
              help="Milliseconds between lines.")  # fmt: skip
@click.argument("more_properties", nargs=-1, metavar="")
def command(
    bootstrap_server: str | None,
    topic: str,
    num_records: int,
    record_size: int | None,
    payload_file: str | None,
    payload_delimiter: str,
    payload_monotonic: bool,
    throughput: float,
    properties: tuple[str, ...],
    config_file: str | None,
    print_metrics: bool,
    transactional_id: str | None,
    transaction_duration_ms: int | None,
    warmup_records: int,
    reporting_interval: int,
    more_properties: tuple[str, ...],
) -> None:
    """Send records as fast as wanted and tell rate and latency."""
    if sum((record_size is not None, payload_file is not None, payload_monotonic)) != 1:
        raise click.UsageError("give exactly one of --record-size, --payload-file and --payload-monotonic")
    if warmup_records and warmup_records >= num_records:
        raise click.UsageError("--warmup-records must be fewer than --num-records")
    configs = _configs(bootstrap_server, config_file, [*properties, *more_properties])
    if transactional_id is not None:
        configs["transactional_id"] = transactional_id
    elif transaction_duration_ms is not None:
        configs.setdefault("transactional_id", f"performance-producer-{uuid.uuid4()}")
    if configs.get("transactional_id") is not None and transaction_duration_ms is None:
        transaction_duration_ms = TRANSACTION_MS
    payloads = _payloads(record_size, payload_file, payload_delimiter, num_records)
    from odradek import Producer

    with Producer(**configs) as producer:
        if transaction_duration_ms is not None:
            producer.init_transactions()
        run = Run(topic, num_records, warmup_records, throughput, reporting_interval, transaction_duration_ms)
        try:
            run.send(producer, payloads)
        finally:
            # After Ctrl-C, too: what has been measured until then is worth telling.
            run.report()
        if print_metrics:
            echo_lines(metric_lines(producer.metrics()))
    if run.done.failures:
        raise OdradekError(
            f"{run.done.failures} records were not delivered; the first error: {run.done.first_error}"
        )


class Run:
    """One measurement.

    Args:
        topic: where to send.
        count: how many records.
        warmup: how many of them, at first, the second summary leaves out; 0: there is none.
        throughput: records per second at most; not positive: no limit.
        reporting_ms: milliseconds between lines.
        transaction_ms: after how long a transaction is committed; None: there are none.
    """

    def __init__(
        self,
        topic: str,
        count: int,
        warmup: int,
        throughput: float,
        reporting_ms: int,
        transaction_ms: int | None = None,
    ) -> None:
        self.topic = topic
        self.count = count
        self.warmup = warmup
        self.throughput = throughput
        self.reporting_ms = reporting_ms
        self.transaction_ms = transaction_ms
        self.done = Latencies(count)
        self.steady = Latencies(count - warmup)
        self._progress = Progress(count)
        self._began = self._steady_began = time.perf_counter()

    def send(self, producer: Producer, payloads: Iterator[bytes]) -> None:
        """Send all records and wait for them."""
        self._began = shown = time.perf_counter()
        opened: float | None = None  # when the transaction began
        for sent in range(self.count):
            value = next(payloads)
            now = time.perf_counter()
            if sent == self.warmup:
                self._steady_began = now
            if self.transaction_ms is not None and opened is None:
                producer.begin_transaction()
                opened = time.perf_counter()
            producer.send(self.topic, value=value, on_delivery=self._callback(sent, now, len(value)))
            self._progress.show(self.done, now)
            if opened is not None and (now - opened) * 1000 >= (self.transaction_ms or 0):
                producer.commit_transaction()
                opened = None
            if (now - shown) * 1000 >= self.reporting_ms:
                self._progress.clear()
                click.echo(self.done.window(now - shown))
                shown = now
            if self.throughput > 0:
                # Less than a sleep can be right about is left to the records that follow.
                ahead = (sent + 1) / self.throughput - (time.perf_counter() - self._began)
                if ahead > 0.001:
                    time.sleep(ahead)
        if opened is not None:
            producer.commit_transaction()
        producer.flush()

    def _callback(self, index: int, sent_at: float, size: int) -> Callable[[Any, BaseException | None], None]:
        counted = (self.done, self.steady) if self.warmup and index >= self.warmup else (self.done,)

        def delivered(_: object, error: BaseException | None) -> None:
            latency_ms = (time.perf_counter() - sent_at) * 1000
            for latencies in counted:
                latencies.record(latency_ms, size, error)

        return delivered

    def report(self) -> None:
        """Print the summaries, if anything was sent."""
        ended = time.perf_counter()
        self._progress.clear()
        if self.done.count or not self.count:
            click.echo(self.done.total(ended - self._began))
        if self.warmup and self.steady.count:
            total = self.steady.total(ended - self._steady_began)
            click.echo(total.replace(" sent", " sent (steady state)", 1))


def _configs(bootstrap_server: str | None, config_file: str | None, properties: list[str]) -> dict[str, Any]:
    """The producer's configs; `--bootstrap-server` goes before `bootstrap.servers` among the properties."""
    configs = client_configs(
        "",
        config_file,
        properties,
        client_id="perf-producer-client",
        max_block_ms=UNREACHABLE_AFTER_MS,
    )
    # `client_configs` gives the servers the last word, and there were none.
    given = read_properties(config_file) | key_values(properties, "--command-property")
    servers = bootstrap_server or given.get("bootstrap.servers")
    if not servers:
        raise click.UsageError("give --bootstrap-server, or bootstrap.servers in --command-property")
    return configs | {"bootstrap_servers": servers}


class Progress:
    """A line on standard error that a person sees moving; nothing where that is no terminal."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._next = 0.0 if sys.stderr.isatty() else float("inf")
        self._shown = False

    def show(self, done: Latencies, now: float) -> None:
        """Draw the line if the last time is long enough ago; `now` in seconds of any clock."""
        if now < self._next:
            return
        self._next = now + PROGRESS_EVERY_S
        share = done.count / self._total
        click.echo(
            f"\r\x1b[K{done.count:,} of {self._total:,} acknowledged ({share:.0%})", err=True, nl=False
        )
        self._shown = True

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            click.echo("\r\x1b[K", err=True, nl=False)
            self._shown = False


def _payloads(size: int | None, file: str | None, delimiter: str, count: int) -> Iterator[bytes]:
    """Values: random capital letters as Kafka's tool sends, parts of a file, or numbers that count up."""
    # The same values in each run, so that runs can be compared; Kafka's tool has the seed 0 as well.
    rng = random.Random(0)
    if size is not None:
        return _forever([bytes(rng.randrange(65, 91) for _ in range(size))], rng)
    if file is None:
        return (str(number).encode() for number in range(count))
    by = delimiter.replace("\\n", "\n").replace("\\t", "\t").encode()
    if not by:
        raise click.BadParameter("it may not be empty", param_hint="--payload-delimiter")
    values = [part for part in Path(file).read_bytes().split(by) if part]
    click.echo(f"Reading payloads from: {Path(file).resolve()}", err=True)
    click.echo(f"Number of records read: {len(values)}", err=True)
    if not values:
        raise OdradekError(f"{file} holds no payload")
    return _forever(values, rng)


def _forever(values: list[bytes], rng: random.Random) -> Iterator[bytes]:
    while True:
        yield rng.choice(values)
