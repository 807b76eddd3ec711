"""`odradek console-producer`: kafka-console-producer. How lines become records is in `line_reader`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from odradek.cli.line_reader import LineReader, read_lines
from odradek.cli.tool import (
    UNREACHABLE_AFTER_MS,
    Tool,
    bootstrap_option,
    client_configs,
    command_config_option,
    ignored_option,
    key_values,
    read_properties,
)
from odradek.errors import OdradekError

if TYPE_CHECKING:
    from odradek import Producer

ACKS = {"all": "all", "-1": "all", "0": 0, "1": 1}
LINE_READERS = ("LineMessageReader", "ConsoleProducer$LineMessageReader")
#: With --sync (True) nothing more can come to fill a batch.
LINGER_MS = {False: 1000, True: 0}
OURS = "the keys and values are lines' bytes"


@click.command(cls=Tool, name="console-producer")
@bootstrap_option("--broker-list")
@click.option("--topic", required=True, help="The topic to send to.")
@click.option("--sync", is_flag=True, help="Send one record at a time, each after the last is acknowledged.")
@click.option("--compression-codec", is_flag=False, flag_value="gzip", default="none", show_default=True,
              help="none, gzip, snappy, lz4 or zstd.")  # fmt: skip
@click.option("--batch-size", type=int, help="Bytes of one batch.")
@click.option("--max-partition-memory-bytes", type=int, help="The same; it goes before --batch-size.")
@click.option("--max-memory-bytes", type=int, help="Bytes that may wait to be sent.")
@click.option("--message-send-max-retries", type=int, help="How often a failed send is tried again.")
@click.option("--retry-backoff-ms", type=int, help="Milliseconds before a send is tried again.")
@click.option("--timeout", "linger_ms", type=int,
              help="Milliseconds that records may wait for more; 1000, with --sync 0.")  # fmt: skip
@click.option("--request-required-acks", type=click.Choice(list(ACKS)), default="all", show_default=True)
@click.option("--request-timeout-ms", type=int, help="Milliseconds to wait for an acknowledgement.")
@click.option("--metadata-expiry-ms", type=int, help="Milliseconds after which metadata is asked again.")
@click.option("--max-block-ms", type=int, default=UNREACHABLE_AFTER_MS, show_default=True,
              help="Milliseconds that a send may wait for room or metadata.")  # fmt: skip
@click.option("--socket-buffer-size", type=int, help="Bytes of the socket's send buffer.")
@click.option("--property", "--reader-property", "properties", multiple=True, metavar="NAME=VALUE",
              help="For the line reader: parse.key, key.separator, parse.headers, …")  # fmt: skip
@click.option("--reader-config", type=click.Path(exists=True, dir_okay=False),
              help="A properties file for the line reader.")  # fmt: skip
@click.option("--line-reader", help="The class of the reader; Kafka's LineMessageReader is the only one.")
@click.option("--producer-property", "--command-property", multiple=True, metavar="NAME=VALUE",
              help="A producer config.")  # fmt: skip
@command_config_option("--producer.config", "--command-config")
@ignored_option("--key-serializer", OURS)
@ignored_option("--value-serializer", OURS)
@ignored_option("--queue-size", "--max-memory-bytes bounds what waits")
@ignored_option("--queue-enqueuetimeout-ms", "--max-block-ms bounds how long a send waits")
@ignored_option("--new-producer", "there is no other any more", is_flag=True)
@ignored_option("--old-producer", "there is only the new one", is_flag=True)
def command(
    bootstrap_server: str,
    topic: str,
    sync: bool,
    compression_codec: str,
    request_required_acks: str,
    properties: tuple[str, ...],
    reader_config: str | None,
    line_reader: str | None,
    producer_property: tuple[str, ...],
    config_file: str | None,
    **numbers: int | None,
) -> None:
    """Send each line of standard input to a topic."""
    if line_reader is not None and line_reader.rpartition(".")[2] not in LINE_READERS:
        raise click.BadParameter(
            f"{line_reader!r}: Java classes cannot be loaded; LineMessageReader is built in",
            param_hint="--line-reader",
        )
    reader = LineReader.from_properties(
        {k: v for k, v in read_properties(reader_config).items() if k != "topic"}
        | key_values(properties, "--reader-property")
    )
    from odradek import Producer

    configs = client_configs(
        bootstrap_server,
        config_file,
        producer_property,
        "--producer-property",
        client_id="console-producer",
        acks=ACKS[request_required_acks],
        enable_idempotence=None if ACKS[request_required_acks] == "all" else False,
        compression_type=compression_codec,
        linger_ms=LINGER_MS[sync] if numbers["linger_ms"] is None else numbers["linger_ms"],
        batch_size=numbers["max_partition_memory_bytes"] or numbers["batch_size"],
        buffer_memory=numbers["max_memory_bytes"],
        retries=numbers["message_send_max_retries"],
        retry_backoff_ms=numbers["retry_backoff_ms"],
        request_timeout_ms=numbers["request_timeout_ms"],
        metadata_max_age_ms=numbers["metadata_expiry_ms"],
        max_block_ms=numbers["max_block_ms"],
        send_buffer_bytes=numbers["socket_buffer_size"],
    )
    # What was read is sent, whatever ends this: closing the producer waits for it.
    with Producer(**configs) as producer:
        failures = _send(producer, topic, reader, sync=sync)
    if failures:
        raise OdradekError(f"{len(failures)} records were not delivered")


def _send(producer: Producer, topic: str, reader: LineReader, *, sync: bool) -> list[BaseException]:
    """Send all lines; returns the errors of those that were not delivered, which are printed already."""
    from odradek.client.errors import MessageTooLargeError

    failures: list[BaseException] = []
    longest = producer.config.max_request_size

    def failed(error: BaseException) -> None:
        click.echo(f"Error when sending message to topic {topic}: {error}", err=True)
        failures.append(error)

    def delivered(_: object, error: BaseException | None) -> None:
        if error is not None:
            failed(error)

    for number, line in enumerate(_lines(longest), 1):
        if line is None:
            failed(MessageTooLargeError(f"line {number} has more than {longest} bytes (max.request.size)"))
            continue
        record = reader.record(line, number)
        try:
            if sync:
                producer.send(topic, **record).result()
            else:
                producer.send(topic, on_delivery=delivered, **record)
        except MessageTooLargeError as error:
            failed(error)
    producer.flush()
    return failures


def _lines(longest: int) -> Iterator[bytes | None]:
    """Lines of standard input, with a prompt where a person types them."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield from read_lines(sys.stdin.buffer, longest)
        return
    click.echo(">", nl=False)
    for line in read_lines(sys.stdin.buffer, longest):
        yield line
        click.echo(">", nl=False)
