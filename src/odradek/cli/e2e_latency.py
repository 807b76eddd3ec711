"""`odradek e2e-latency`: kafka-e2e-latency, the time from a send until the record is read."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.tool import Tool, client_configs
from odradek.errors import OdradekError

if TYPE_CHECKING:
    from odradek import Consumer

_WAIT_MS = 60_000
_REPORTED_EVERY = 1000
_WORDS = {
    "bootstrap_server": "--bootstrap-server",
    "topic": "--topic",
    "num_records": "--num-records",
    "acks": "--producer-acks",
    "record_size": "--record-size",
}


@click.command(cls=Tool, name="e2e-latency")
@click.argument("words", nargs=-1, metavar="[BROKERS TOPIC RECORDS ACKS BYTES [FILE]]")
@click.option("--bootstrap-server", metavar="HOST:PORT[,…]", help="The brokers to ask first.")
@click.option("--topic", help="The topic; it is made, with one partition, if it is missing.")
@click.option("--num-records", type=click.IntRange(min=1), help="How many records.")
@click.option(
    "--producer-acks", "acks", type=click.Choice(["1", "all"]), help="Who has a record before it counts."
)
@click.option("--record-size", type=click.IntRange(min=1), metavar="BYTES", help="The size of a value.")
@click.option("--record-key-size", type=click.IntRange(min=0), default=0, metavar="BYTES", help="Of a key.")
@click.option("--num-headers", type=click.IntRange(min=0), default=0, help="Headers of a record.")
@click.option(
    "--record-header-key-size", "header_key_size", type=click.IntRange(min=0), default=0, metavar="BYTES",
    help="The size of a header's key.",
)  # fmt: skip
@click.option(
    "--record-header-size", "header_size", type=click.IntRange(min=0), default=0, metavar="BYTES",
    help="The size of a header's value.",
)  # fmt: skip
@click.option(
    "--command-config", "config_file", type=click.Path(exists=True, dir_okay=False),
    help="A properties file with client configs.",
)  # fmt: skip
def command(
    words: tuple[str, ...],
    bootstrap_server: str | None,
    topic: str | None,
    num_records: int | None,
    acks: str | None,
    record_size: int | None,
    record_key_size: int,
    num_headers: int,
    header_key_size: int,
    header_size: int,
    config_file: str | None,
) -> None:
    """Send records one by one, and measure until each has been read.

    Options, or the words of releases before 4.2: brokers, topic, number of records, acks (1 or all), bytes,
    and a properties file.
    """
    if words:
        bootstrap_server, topic, num_records, acks, record_size, config_file = _old_words(words, config_file)
    given = {
        "bootstrap_server": bootstrap_server,
        "topic": topic,
        "num_records": num_records,
        "acks": acks,
        "record_size": record_size,
    }
    missing = [_WORDS[name] for name, value in given.items() if value is None]
    if missing:
        raise click.UsageError(f"missing: {', '.join(missing)}")
    assert bootstrap_server and topic and num_records and acks and record_size
    letters = random.Random(0)

    def some(size: int) -> bytes:
        # Kafka's tool fills a record with one letter.
        return bytes([letters.randrange(26) + ord("A")]) * size

    latencies_ns = _measure(
        client_configs(bootstrap_server, config_file),
        topic,
        acks,
        (
            (
                some(record_key_size) if record_key_size else None,
                some(record_size),
                [(some(header_key_size).decode(), some(header_size)) for _ in range(num_headers)],
            )
            for _ in range(num_records)
        ),
    )
    click.echo(f"Avg latency: {sum(latencies_ns) / len(latencies_ns) / 1e6:.4f} ms")
    ordered_ms = [latency // 1_000_000 for latency in sorted(latencies_ns)]
    p50, p99, p999 = (ordered_ms[int(len(ordered_ms) * share)] for share in (0.5, 0.99, 0.999))
    click.echo(f"Percentiles: 50th = {p50}, 99th = {p99}, 99.9th = {p999}")


def _old_words(words: tuple[str, ...], config_file: str | None) -> tuple[str, str, int, str, int, str | None]:
    """Read the words by place, which Kafka's tool has always taken."""
    if len(words) not in (5, 6):
        raise click.UsageError("expected BROKERS TOPIC RECORDS ACKS BYTES [FILE], or options")
    brokers, topic, records, acks, size = words[:5]
    if acks not in ("1", "all"):
        raise click.UsageError("Latency testing requires synchronous acknowledgement. Please use 1 or all")
    counts = []
    for name, text in (("RECORDS", records), ("BYTES", size)):
        if not text.isdecimal() or int(text) < 1:
            raise click.UsageError(f"{name} {text}: expected a number from 1 on")
        counts.append(int(text))
    file = words[5] if len(words) == 6 and words[5].strip() else config_file
    return brokers, topic, counts[0], acks, counts[1], file


def _measure(
    configs: dict[str, Any],
    topic: str,
    acks: str,
    records: Iterable[tuple[bytes | None, bytes, list[tuple[str, bytes]]]],
) -> list[int]:
    """Send each record and wait for it at the topic's end; return nanoseconds.

    Raises:
        OdradekError: a record did not come, or another one came.
    """
    from odradek import Admin, Consumer, NewTopic, Producer

    with Admin(**configs) as admin:
        if topic not in admin.list_topics():
            click.echo(
                f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and '
                "replication factor = 1"
            )
            admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])
    group = f"test-group-{int(time.time() * 1000)}"
    reading: dict[str, Any] = {"group_id": group, "enable_auto_commit": False, "auto_offset_reset": "latest"}
    latencies_ns = []
    with (
        Consumer(**(configs | reading | {"fetch_max_wait_ms": 0})) as consumer,
        Producer(**(configs | {"acks": acks, "linger_ms": 0})) as producer,
    ):
        partitions = [(topic, partition) for partition in consumer.partitions_for_topic(topic)]
        consumer.assign(partitions)
        consumer.seek_to_end(*partitions)
        for partition in partitions:
            consumer.position(partition)
        for number, (key, value, headers) in enumerate(records):
            began_ns = time.perf_counter_ns()
            producer.send(topic, key=key, value=value, headers=headers).result()
            _check_only(consumer, value)
            latency_ns = time.perf_counter_ns() - began_ns
            if number % _REPORTED_EVERY == 0:
                click.echo(f"{number}\t{latency_ns / 1e6}")
            latencies_ns.append(latency_ns)
        consumer.commit()
    return latencies_ns


def _check_only(consumer: Consumer[bytes | None, bytes | None], value: bytes) -> None:
    """Read the record that was just sent, and see that it is that one."""
    deadline = time.monotonic() + _WAIT_MS / 1000
    read: list[bytes | None] = []
    while not read:
        left_ms = (deadline - time.monotonic()) * 1000
        if left_ms <= 0:
            raise OdradekError(f"poll() timed out before finding a result (timeout:[{_WAIT_MS}ms])")
        read = [record.value for record in consumer.poll(timeout_ms=left_ms)]
    if len(read) != 1:
        raise OdradekError(f"Only one result was expected during this test. We found [{len(read)}]")
    if read[0] != value:
        raise OdradekError("The message read did not match the message sent: who else writes to this topic?")
