"""`odradek console-consumer`: kafka-console-consumer."""

from __future__ import annotations

import signal
import sys
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from odradek.cli.tool import Tool, bootstrap_option, client_configs, command_config_option, key_values

if TYPE_CHECKING:
    from odradek import Consumer, ConsumerRecord


@dataclass(frozen=True)
class Formatter:
    """Records into lines, by the properties of Kafka's DefaultMessageFormatter."""

    print_timestamp: bool = False
    print_partition: bool = False
    print_offset: bool = False
    print_delivery: bool = False
    print_epoch: bool = False
    print_headers: bool = False
    print_key: bool = False
    print_value: bool = True
    key_separator: bytes = b"\t"
    line_separator: bytes = b"\n"
    headers_separator: bytes = b","
    null_literal: bytes = b"null"
    #: Kafka's configs that name Java classes: accepted where they say what bytes-as-they-are means.
    deserializers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_properties(cls, properties: dict[str, str]) -> Formatter:
        """From `print.key=true` and the like.

        Raises:
            click.BadParameter: a property that the formatter does not have.
        """
        settings: dict[str, Any] = {}
        for name, text in properties.items():
            attribute = name.replace(".", "_")
            if name.endswith(".deserializer"):
                settings.setdefault("deserializers", {})[name] = text
            elif attribute not in cls.__dataclass_fields__ or attribute == "deserializers":
                known = ", ".join(
                    f.replace("_", ".") for f in cls.__dataclass_fields__ if f != "deserializers"
                )
                raise click.BadParameter(f"{name!r} is not one of {known}", param_hint="--property")
            elif attribute.startswith("print_"):
                settings[attribute] = text.strip().lower() == "true"
            else:
                settings[attribute] = text.encode()
        return cls(**settings)

    def line(self, record: ConsumerRecord) -> bytes:
        """The record as Kafka's console consumer prints it, with its line separator."""
        parts: list[bytes] = []
        if self.print_timestamp:
            kind = "LogAppendTime" if record.timestamp_type == 1 else "CreateTime"
            parts.append(f"{kind}:{record.timestamp}".encode() if record.timestamp >= 0 else b"NO_TIMESTAMP")
        if self.print_partition:
            parts.append(b"Partition:%d" % record.partition)
        if self.print_offset:
            parts.append(b"Offset:%d" % record.offset)
        if self.print_delivery:
            parts.append(b"Delivery:NOT_PRESENT")
        if self.print_epoch:
            parts.append(
                b"Epoch:%d" % record.leader_epoch if record.leader_epoch >= 0 else b"Epoch:NOT_PRESENT"
            )
        if self.print_headers:
            pairs = [
                b"%s:%s" % (k.encode(), self.null_literal if v is None else v) for k, v in record.headers
            ]
            parts.append(self.headers_separator.join(pairs) if pairs else b"NO_HEADERS")
        if self.print_key:
            parts.append(self.null_literal if record.key is None else record.key)
        if self.print_value:
            parts.append(self.null_literal if record.value is None else record.value)
        return self.key_separator.join(parts) + self.line_separator


@click.command(cls=Tool, name="console-consumer")
@bootstrap_option()
@click.option("--topic", help="The topic to read.")
@click.option("--include", "--whitelist", "include", help="A regular expression for the topics to read.")
@click.option("--partition", type=int, help="Read this partition alone, without a group.")
@click.option(
    "--offset", help="Where to begin in --partition: a number, earliest or latest.  [default: latest]"
)
@click.option(
    "--from-beginning", is_flag=True, help="Begin with the earliest record where nothing is committed."
)
@click.option("--max-messages", type=int, help="End after so many records.")
@click.option("--timeout-ms", type=int, help="End when no record has come for so long.")
@click.option("--group", help="The consumer group.")
@click.option("--isolation-level", type=click.Choice(["read_uncommitted", "read_committed"]),
              default="read_uncommitted", show_default=True)  # fmt: skip
@click.option("--property", "--formatter-property", "properties", multiple=True, metavar="NAME=VALUE",
              help="For the output: print.key, print.timestamp, key.separator, null.literal, …")  # fmt: skip
@click.option("--consumer-property", multiple=True, metavar="NAME=VALUE", help="A consumer config.")
@command_config_option("--consumer.config", "--command-config")
@click.option("--skip-message-on-error", is_flag=True, help="Go on after a record that cannot be printed.")
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
    properties: tuple[str, ...],
    consumer_property: tuple[str, ...],
    config_file: str | None,
    skip_message_on_error: bool,
) -> None:
    """Print the records of topics."""
    if (topic is None) == (include is None):
        raise click.UsageError("give exactly one of --topic and --include")
    if partition is not None and topic is None:
        raise click.UsageError("--partition needs --topic")
    if offset is not None and partition is None:
        raise click.UsageError("--offset needs --partition")
    if offset is not None and from_beginning:
        raise click.UsageError("--from-beginning and --offset cannot be used together")
    formatter = Formatter.from_properties(key_values(properties, "--property"))
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
        # As Kafka's: a group of one's own, that leaves no offsets behind.
        configs |= {"group_id": f"console-consumer-{uuid.uuid4().int % 100_000}", "enable_auto_commit": False}
    from odradek import Consumer, TopicPartition

    signal.signal(signal.SIGTERM, _interrupt)
    printer = Printer(formatter, max_messages, timeout_ms, skip_message_on_error)
    try:
        with Consumer(**configs) as consumer:
            if partition is not None:
                assert topic is not None
                at = TopicPartition(topic, partition)
                consumer.assign([at])
                _seek(consumer, at, offset or ("earliest" if from_beginning else "latest"))
            elif topic is not None:
                consumer.subscribe([topic])
            else:
                consumer.subscribe(pattern=include)
            printer.run(consumer)
    except KeyboardInterrupt:
        pass
    finally:
        click.echo(f"Processed a total of {printer.count} messages", err=True)


def _interrupt(_: int, __: object) -> None:
    raise KeyboardInterrupt


def _seek(consumer: Consumer, at: Any, offset: str) -> None:
    if offset == "earliest":
        consumer.seek_to_beginning(at)
    elif offset == "latest":
        consumer.seek_to_end(at)
    elif offset.isdigit():
        consumer.seek(at, int(offset))
    else:
        raise click.BadParameter(f"{offset!r} is not a number, earliest or latest", param_hint="--offset")


@dataclass
class Printer:
    """Prints what a consumer reads until the count is reached or nothing comes any more."""

    formatter: Formatter
    max_messages: int | None
    timeout_ms: int | None
    skip_message_on_error: bool
    count: int = 0

    def run(self, consumer: Consumer) -> None:
        """Print until told to end."""
        out = sys.stdout.buffer
        last = time.monotonic()
        while self.max_messages is None or self.count < self.max_messages:
            room = {} if self.max_messages is None else {"max_records": self.max_messages - self.count}
            records = consumer.poll(timeout_ms=min(self.timeout_ms or 1000, 1000), **room)
            if records:
                last = time.monotonic()
            elif self.timeout_ms is not None and (time.monotonic() - last) * 1000 >= self.timeout_ms:
                click.echo(f"No message came within {self.timeout_ms} ms (--timeout-ms)", err=True)
                break
            for record in records:
                self._print(out, record)
            out.flush()

    def _print(self, out: BinaryIO, record: ConsumerRecord) -> None:
        try:
            out.write(self.formatter.line(record))
        except (TypeError, ValueError) as error:
            if not self.skip_message_on_error:
                raise
            click.echo(f"Error processing message, skipping this message: {error}", err=True)
        self.count += 1
