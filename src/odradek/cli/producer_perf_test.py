"""`odradek producer-perf-test`: kafka-producer-perf-test."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from odradek.cli.tool import Tool, client_configs, command_config_option
from odradek.errors import OdradekError

REPORT_EVERY_S = 5.0


@dataclass
class Latencies:
    """What has been acknowledged: counts and latencies in milliseconds. Filled by delivery callbacks."""

    latencies_ms: list[float] = field(default_factory=list)
    bytes: int = 0
    failures: int = 0
    first_error: BaseException | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def record(self, latency_ms: float, size: int, error: BaseException | None) -> None:
        """One record is done."""
        with self.lock:
            if error is not None:
                self.failures += 1
                self.first_error = self.first_error or error
                return
            self.latencies_ms.append(latency_ms)
            self.bytes += size

    def window(self, since: int, since_bytes: int, seconds: float) -> str:
        """Kafka's line for what has come since index `since`."""
        part = self.latencies_ms[since:]
        average = sum(part) / len(part) if part else 0.0
        return (
            f"{len(part)} records sent, {len(part) / seconds:.1f} records/sec "
            f"({(self.bytes - since_bytes) / seconds / 2**20:.2f} MB/sec), {average:.1f} ms avg latency, "
            f"{max(part, default=0.0):.1f} ms max latency."
        )

    def total(self, seconds: float) -> str:
        """Kafka's closing line."""
        ordered = sorted(self.latencies_ms)
        count = len(ordered)

        def percentile(of: float) -> int:
            return round(ordered[min(count - 1, int(of * count))]) if count else 0

        average = sum(ordered) / count if count else 0.0
        return (
            f"{count} records sent, {count / seconds:.1f} records/sec "
            f"({self.bytes / seconds / 2**20:.2f} MB/sec), {average:.2f} ms avg latency, "
            f"{ordered[-1] if ordered else 0.0:.2f} ms max latency, "
            f"{percentile(0.5)} ms 50th, {percentile(0.95)} ms 95th, {percentile(0.99)} ms 99th, "
            f"{percentile(0.999)} ms 99.9th."
        )


@click.command(cls=Tool, name="producer-perf-test")
@click.option("--topic", required=True, help="The topic to send to.")
@click.option("--num-records", type=int, required=True, help="How many records.")
@click.option("--record-size", type=int, help="Bytes of each value.")
@click.option("--payload-file", type=click.Path(exists=True, dir_okay=False), help="Values to choose from.")
@click.option("--payload-delimiter", default="\\n", show_default=True, help="What parts them in the file.")
@click.option("--payload-monotonic", is_flag=True, help="Values that count up from 0.")
@click.option("--throughput", type=float, required=True, help="Records per second at most; -1: no limit.")
@click.option("--producer-props", "first_property", metavar="NAME=VALUE…", help="Producer configs.")
@command_config_option("--producer.config", "--command-config")
@click.option("--bootstrap-server", help="The brokers; also as bootstrap.servers in --producer-props.")
@click.option("--print-metrics", is_flag=True, help="Print the producer's metrics at the end.")
@click.argument("more_properties", nargs=-1)
def command(
    topic: str,
    num_records: int,
    record_size: int | None,
    payload_file: str | None,
    payload_delimiter: str,
    payload_monotonic: bool,
    throughput: float,
    first_property: str | None,
    config_file: str | None,
    bootstrap_server: str | None,
    print_metrics: bool,
    more_properties: tuple[str, ...],
) -> None:
    """Send records as fast as wanted and tell rate and latency."""
    if sum((record_size is not None, payload_file is not None, payload_monotonic)) != 1:
        raise click.UsageError("give exactly one of --record-size, --payload-file and --payload-monotonic")
    properties = ([first_property] if first_property else []) + list(more_properties)
    configs: dict[str, Any] = client_configs(
        bootstrap_server or "", config_file, properties, "--producer-props", client_id="perf-producer-client"
    )
    if not bootstrap_server:
        given = [p.partition("=")[2] for p in properties if p.startswith("bootstrap.servers=")]
        if not given:
            raise click.UsageError("give --bootstrap-server or bootstrap.servers in --producer-props")
        configs["bootstrap_servers"] = given[-1]
    from odradek import Producer

    done = Latencies()
    payloads = _payloads(record_size, payload_file, payload_delimiter, num_records)
    with Producer(**configs) as producer:
        began = time.perf_counter()
        shown_at, shown_count, shown_bytes = began, 0, 0
        for sent in range(num_records):
            value = next(payloads)
            now = time.perf_counter()

            def delivered(
                _: object, error: BaseException | None, now: float = now, size: int = len(value)
            ) -> None:
                done.record((time.perf_counter() - now) * 1000, size, error)

            producer.send(topic, value=value, on_delivery=delivered)
            if now - shown_at >= REPORT_EVERY_S:
                click.echo(done.window(shown_count, shown_bytes, now - shown_at))
                shown_at, shown_count, shown_bytes = now, len(done.latencies_ms), done.bytes
            if throughput > 0:
                ahead = (sent + 1) / throughput - (now - began)
                if ahead > 0.001:
                    time.sleep(ahead)
        producer.flush()
        click.echo(done.total(time.perf_counter() - began))
        if print_metrics:
            for name, metric in sorted(producer.metrics().items()):
                click.echo(f"{name:<60}: {metric}")
    if done.failures:
        raise OdradekError(f"{done.failures} records were not delivered; the first error: {done.first_error}")


def _payloads(size: int | None, file: str | None, delimiter: str, count: int) -> Iterator[bytes]:
    """Values: random capital letters as Kafka's tool sends, lines of a file, or numbers that count up."""
    rng = random.Random(0)
    if size is not None:
        value = bytes(rng.randrange(65, 91) for _ in range(size))
        while True:
            yield value
    if file is not None:
        parts = Path(file).read_bytes().split(delimiter.encode().decode("unicode_escape").encode())
        values = [part for part in parts if part]
        click.echo(f"Reading payloads from: {Path(file).resolve()}", file=sys.stderr)
        click.echo(f"Number of messages read: {len(values)}", file=sys.stderr)
        if not values:
            raise OdradekError(f"{file} holds no payload")
        while True:
            yield rng.choice(values)
    for number in range(count):
        yield str(number).encode()
