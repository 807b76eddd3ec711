"""`odradek console-consumer`: kafka-console-consumer. How records become lines is in `formatter`."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from odradek.cli.formatter import FormatError, Formatter, formatter_class
from odradek.cli.tool import (
    NotedSignals,
    Tool,
    bootstrap_option,
    client_configs,
    command_config_option,
    ignored_option,
    key_values,
    python_names,
    read_properties,
    regular_expression,
)
from odradek.errors import OdradekError

if TYPE_CHECKING:
    from odradek import Consumer, ConsumerRecord

#: Milliseconds that one poll takes at most: so soon Ctrl-C is seen.
POLL_MS = 200


@click.command(cls=Tool, name="console-consumer")
@bootstrap_option("--broker-list")
@click.option("--topic", help="The topic to read.")
@click.option("--include", "--whitelist", "include", help="A regular expression for the topics to read.")
@click.option("--partition", type=click.IntRange(0), help="Read this partition alone, without a group.")
@click.option(
    "--offset", help="Where to begin in --partition: a number, earliest or latest.  [default: latest]"
)
@click.option(
    "--from-beginning", is_flag=True, help="Begin with the earliest record where nothing is committed."
)
@click.option("--max-messages", type=int, help="End after this many records.")
@click.option("--timeout-ms", type=int, help="End when no record has come for so long.")
@click.option("--group", help="The consumer group.")
@click.option("--isolation-level", type=click.Choice(["read_uncommitted", "read_committed"]),
              default="read_uncommitted", show_default=True)  # fmt: skip
@click.option("--formatter", "formatter_name", default="DefaultMessageFormatter", show_default=True,
              help="Or NoOpMessageFormatter, which prints nothing.")  # fmt: skip
@click.option("--property", "--formatter-property", "properties", multiple=True, metavar="NAME=VALUE",
              help="For the output: print.key, print.timestamp, key.separator, null.literal, …")  # fmt: skip
@click.option("--formatter-config", type=click.Path(exists=True, dir_okay=False),
              help="A properties file for the output.")  # fmt: skip
@click.option("--key-deserializer", help="How to read keys: LongDeserializer, ….")
@click.option("--value-deserializer", help="How to read values: LongDeserializer, ….")
@click.option("--consumer-property", "--command-property", multiple=True, metavar="NAME=VALUE",
              help="A consumer config.")  # fmt: skip
@command_config_option("--consumer.config", "--command-config")
@click.option("--skip-message-on-error", is_flag=True, help="Go on after a record that cannot be printed.")
@click.option("--enable-systest-events", "tells_events", is_flag=True,
              help="Print shutdown_complete at the end, as Kafka's system tests want it.")  # fmt: skip
@ignored_option("--new-consumer", "there is no other any more", is_flag=True)
def command(
    bootstrap_server: str,
    topic: str | None,
    include: str | None,
    partition: int | None,
    offset: str | None,
    from_beginning: bool,
    max_messages: int | None,
    timeout_ms: int | None,
    group: str | None,
    isolation_level: str,
    formatter_name: str,
    properties: tuple[str, ...],
    formatter_config: str | None,
    key_deserializer: str | None,
    value_deserializer: str | None,
    consumer_property: tuple[str, ...],
    config_file: str | None,
    skip_message_on_error: bool,
    tells_events: bool,
) -> None:
    """Print the records of topics."""
    _check_what(topic, include, partition, offset, from_beginning=from_beginning)
    pattern = None if include is None else regular_expression(include)
    start = _start(offset or ("earliest" if from_beginning else "latest"))
    deserializers = {"key.deserializer": key_deserializer, "value.deserializer": value_deserializer}
    formatter = _formatter(formatter_name, deserializers, formatter_config, properties)
    given = python_names(read_properties(config_file)) | python_names(
        key_values(consumer_property, "--consumer-property")
    )
    _check(given, group, partition, from_beginning=from_beginning)
    configs = client_configs(
        bootstrap_server,
        config_file,
        consumer_property,
        "--consumer-property",
        client_id="console-consumer",
        isolation_level=isolation_level,
        auto_offset_reset="earliest" if from_beginning else "latest",
        group_id=group,
    )
    if partition is None and not configs.get("group_id"):
        # As Kafka's `ConsoleConsumerOptions`: a group of this run's own, that leaves no offsets behind.
        configs["group_id"] = f"console-consumer-{uuid.uuid4().int % 100_000}"
        configs.setdefault("enable_auto_commit", False)
    printer = Printer(formatter, max_messages, timeout_ms, skip_message_on_error)
    try:
        look_first(configs, topic, partition)
        _consume(configs, topic, pattern, partition, start, printer)
    finally:
        click.echo(f"Processed a total of {printer.count} messages", err=True)
        if tells_events:
            click.echo("shutdown_complete")
    printer.signals.leave()


def _consume(
    configs: dict[str, Any],
    topic: str | None,
    pattern: Any,
    partition: int | None,
    start: str | int,
    printer: Printer,
) -> None:
    """Print what comes: of one partition from `start` on, of a topic, or of all that `pattern` fits."""
    from odradek import Consumer, TopicPartition

    with Consumer(**configs) as consumer:
        if topic is None:
            consumer.subscribe(pattern=pattern)
        elif partition is None:
            consumer.subscribe([topic])
        else:
            at = TopicPartition(topic, partition)
            consumer.assign([at])
            _seek(consumer, at, start)
        printer.run(consumer)


def _formatter(
    name: str, deserializers: Mapping[str, str | None], config_file: str | None, properties: Sequence[str]
) -> Formatter:
    """The formatter of this name; properties on the command line have the last word."""
    return formatter_class(name).from_properties(
        {config: value for config, value in deserializers.items() if value is not None}
        | read_properties(config_file)
        | key_values(properties, "--formatter-property")
    )


def _check_what(
    topic: str | None, include: str | None, partition: int | None, offset: str | None, *, from_beginning: bool
) -> None:
    """Refuse options of which one excludes or needs another, as Kafka's tool does."""
    if (topic is None) == (include is None):
        raise click.UsageError("Exactly one of --include/--topic is required.")
    if partition is not None and topic is None:
        raise click.UsageError("The topic is required when partition is specified.")
    if offset is not None and partition is None:
        raise click.UsageError("The partition is required when offset is specified.")
    if offset is not None and from_beginning:
        raise click.UsageError("Options from-beginning and offset cannot be specified together.")


def _check(
    given: Mapping[str, str], group: str | None, partition: int | None, *, from_beginning: bool
) -> None:
    """Refuse what contradicts the consumer configs that were given."""
    groups = {name for name in (group, given.get("group_id")) if name is not None}
    if len(groups) > 1:
        raise click.UsageError(
            "The group ids provided in different places (directly using '--group', via "
            "'--consumer-property', or via '--consumer.config') do not match. Detected group ids: "
            + ", ".join(f"'{name}'" for name in sorted(groups))
        )
    if groups and partition is not None:
        raise click.UsageError("Options group and partition cannot be specified together.")
    reset = given.get("auto_offset_reset", "earliest")
    if from_beginning and reset != "earliest":
        raise click.UsageError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', "
            "please remove one option"
        )


def _start(text: str) -> int | str:
    """Return the offset that `--offset` says.

    Raises:
        click.BadParameter: it says none.
    """
    if text.lower() in ("earliest", "latest"):
        return text.lower()
    if text.isascii() and text.isdigit():
        return int(text)
    raise click.BadParameter(
        f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', or a "
        "non-negative long.",
        param_hint="--offset",
    )


def look_first(configs: Mapping[str, Any], topic: str | None, partition: int | None = None) -> None:
    """Tell early what a consumer would wait for in silence: that no broker answers, or a topic is not there.

    Raises:
        ClientTimeoutError: no broker can be reached.
        OdradekError: the topic has no such partition.
    """
    from odradek import Admin
    from odradek.client.security import is_security_config

    names = {
        "bootstrap_servers",
        "client_id",
        "default_api_timeout_ms",
        "request_timeout_ms",
        "security_protocol",
    }
    same = {
        name: value
        for name, value in configs.items()
        if name in names or is_security_config(name.replace("_", "."))
    }
    # All topics: a topic that is not there is no error then, and with `--include` there is none to ask for.
    with Admin(**same) as admin:
        topics = admin.describe_topics()
    if topic is None:
        return
    if topic not in topics:
        # No error, as with Kafka's tool: a consumer may be started before its producer.
        click.echo(f"WARNING: topic '{topic}' does not exist; waiting for it", err=True)
        return
    ids = {p.partition for p in topics[topic].partitions}
    if partition is not None and partition not in ids:
        raise OdradekError(f"Topic '{topic}' has no partition {partition}; it has {len(ids)}, from 0 on")


def _seek(consumer: Consumer, at: Any, start: int | str) -> None:
    if start == "earliest":
        consumer.seek_to_beginning(at)
    elif start == "latest":
        consumer.seek_to_end(at)
    else:
        consumer.seek(at, int(start))


@dataclass
class Printer:
    """Prints what a consumer reads until the count is reached, nothing comes any more, or a signal came.

    Invariant: when `run` returns or raises, the consumer's positions are not beyond what has been written, so
    that what is committed on closing has been seen by whoever reads the output.
    """

    formatter: Formatter
    max_messages: int | None
    timeout_ms: int | None
    skip_message_on_error: bool
    count: int = 0
    signals: NotedSignals = field(default_factory=NotedSignals)

    def run(self, consumer: Consumer) -> None:
        """Print until told to end.

        Raises:
            BrokenPipeError: whoever read the output has gone.
            FormatError: a record cannot be printed, and `skip_message_on_error` is not set.
        """
        out = sys.stdout.buffer
        most = self.max_messages if self.max_messages is not None and self.max_messages >= 0 else None
        limit_ms = self.timeout_ms if self.timeout_ms is not None and self.timeout_ms >= 0 else None
        last = time.monotonic()
        with self.signals:
            while self.signals.ended_by is None and (most is None or self.count < most):
                # No more than is to be printed: what is left over would have to be read again.
                room = {} if most is None else {"max_records": most - self.count}
                records = consumer.poll(timeout_ms=min(limit_ms or POLL_MS, POLL_MS), **room)
                if records:
                    self._print_all(out, records, consumer)
                    last = time.monotonic()
                elif limit_ms is not None and (time.monotonic() - last) * 1000 >= limit_ms:
                    click.echo(f"No message came within {limit_ms} ms (--timeout-ms)", err=True)
                    break

    def _print_all(self, out: BinaryIO, records: list[ConsumerRecord], consumer: Consumer) -> None:
        written = done = 0
        try:
            for record in records:
                if self.signals.ended_by is not None:
                    break
                self._print(out, record)
                written += 1
        except FormatError:
            out.flush()
            done = written
            raise
        else:
            out.flush()
            done = written
        finally:
            # Without a flush it is not known what has come through: all of it counts as not written. Kafka:
            # `ConsumerWrapper.resetUnconsumedOffsets`.
            self.count += done
            first: dict[tuple[str, int], int] = {}
            for record in records[done:]:
                first.setdefault((record.topic, record.partition), record.offset)
            for at, offset in first.items():
                # A rebalance may have taken the partition away; its next owner reads from the commit on.
                if at in consumer.assignment():
                    consumer.seek(at, offset)

    def _print(self, out: BinaryIO, record: ConsumerRecord) -> None:
        try:
            out.write(self.formatter.line(record))
        except FormatError as error:
            where = f"{record.topic}-{record.partition} at offset {record.offset}"
            if not self.skip_message_on_error:
                raise FormatError(f"{where}: {error}") from error
            click.echo(f"Error processing message, skipping this message: {where}: {error}", err=True)
