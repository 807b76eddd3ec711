"""`odradek console-producer`: kafka-console-producer."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import click

from odradek.cli.tool import Tool, bootstrap_option, client_configs, command_config_option, key_values
from odradek.errors import OdradekError

ACKS = {"all": "all", "-1": "all", "0": 0, "1": 1}


class LineError(OdradekError):
    """A line that is not what the reader's properties promise."""


@dataclass(frozen=True)
class LineReader:
    """Lines into records, by the properties of Kafka's LineMessageReader (KIP-798, KIP-810)."""

    parse_key: bool = False
    parse_headers: bool = False
    key_separator: bytes = b"\t"
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    ignore_error: bool = False
    null_marker: bytes | None = None

    @classmethod
    def from_properties(cls, properties: dict[str, str]) -> LineReader:
        """From `parse.key=true` and the like.

        Raises:
            click.BadParameter: a property that the reader does not have, or a delimiter that is another's.
        """
        settings: dict[str, Any] = {}
        for name, text in properties.items():
            attribute = name.replace(".", "_")
            if attribute not in cls.__dataclass_fields__:
                known = ", ".join(field.replace("_", ".") for field in cls.__dataclass_fields__)
                raise click.BadParameter(f"{name!r} is not one of {known}", param_hint="--property")
            flag = attribute in {"parse_key", "parse_headers", "ignore_error"}
            settings[attribute] = text.strip().lower() == "true" if flag else text.encode()
        reader = cls(**settings)
        if reader.parse_headers and reader.headers_delimiter == reader.headers_separator:
            raise click.BadParameter("headers.delimiter and headers.separator may not be equal")
        if reader.parse_headers and reader.headers_separator == reader.headers_key_separator:
            raise click.BadParameter("headers.separator and headers.key.separator may not be equal")
        return reader

    def records(self, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        """Keyword arguments for `Producer.send`: key, value, headers.

        Raises:
            LineError: a line without an announced separator, unless `ignore.error`.
        """
        for number, line in enumerate(lines, 1):
            yield self._record(line.rstrip(b"\n").removesuffix(b"\r"), number)

    def _record(self, line: bytes, number: int) -> dict[str, Any]:
        rest = line
        headers: list[tuple[str, bytes | None]] = []
        key: bytes | None = None
        if self.parse_headers:
            part, rest = self._cut(rest, self.headers_delimiter, number, "headers delimiter")
            if part is not None and not self._is_null(part):
                headers = [self._header(pair, number) for pair in part.split(self.headers_separator)]
        if self.parse_key:
            key, rest = self._cut(rest, self.key_separator, number, "key separator")
        return {
            "key": None if key is None or self._is_null(key) else key,
            "value": None if self._is_null(rest) else rest,
            "headers": headers,
        }

    def _cut(self, line: bytes, by: bytes, number: int, what: str) -> tuple[bytes | None, bytes]:
        before, found, after = line.partition(by)
        if found:
            return before, after
        if self.ignore_error:
            return None, line
        raise LineError(f"No {what} found on line number {number}: '{line.decode(errors='replace')}'")

    def _header(self, pair: bytes, number: int) -> tuple[str, bytes | None]:
        name, value = self._cut(pair, self.headers_key_separator, number, "header key separator")
        if name is None:
            name, value = pair, b""
        if self._is_null(name):
            raise LineError(f"Header keys should not be equal to the null marker: line {number}")
        return name.decode(), None if self._is_null(value) else value

    def _is_null(self, text: bytes) -> bool:
        return self.null_marker is not None and text == self.null_marker


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
@click.option("--timeout", "linger_ms", type=int, default=1000, show_default=True,
              help="Milliseconds that records may wait for a batch to fill.")  # fmt: skip
@click.option("--request-required-acks", type=click.Choice(list(ACKS)), default="all", show_default=True)
@click.option("--request-timeout-ms", type=int, help="Milliseconds to wait for an acknowledgement.")
@click.option("--metadata-expiry-ms", type=int, help="Milliseconds after which metadata is asked again.")
@click.option("--max-block-ms", type=int, help="Milliseconds that a send may wait for room or metadata.")
@click.option("--property", "--reader-property", "properties", multiple=True, metavar="NAME=VALUE",
              help="For the line reader: parse.key, key.separator, parse.headers, …")  # fmt: skip
@click.option("--producer-property", multiple=True, metavar="NAME=VALUE", help="A producer config.")
@command_config_option("--producer.config", "--command-config")
def command(
    bootstrap_server: str,
    topic: str,
    sync: bool,
    compression_codec: str,
    request_required_acks: str,
    properties: tuple[str, ...],
    producer_property: tuple[str, ...],
    config_file: str | None,
    **numbers: int | None,
) -> None:
    """Send each line of standard input to a topic."""
    reader = LineReader.from_properties(key_values(properties, "--property"))
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
        linger_ms=numbers["linger_ms"],
        batch_size=numbers["max_partition_memory_bytes"] or numbers["batch_size"],
        buffer_memory=numbers["max_memory_bytes"],
        retries=numbers["message_send_max_retries"],
        retry_backoff_ms=numbers["retry_backoff_ms"],
        request_timeout_ms=numbers["request_timeout_ms"],
        metadata_max_age_ms=numbers["metadata_expiry_ms"],
        max_block_ms=numbers["max_block_ms"],
    )
    failures: list[BaseException] = []
    prompt = sys.stdin.isatty()

    def lines() -> Iterator[bytes]:
        while True:
            if prompt:
                click.echo(">", nl=False)
            line = sys.stdin.buffer.readline()
            if not line:
                return
            yield line

    def delivered(_: object, error: BaseException | None) -> None:
        if error is not None:
            click.echo(f"Error when sending message to topic {topic}: {error}", err=True)
            failures.append(error)

    with Producer(**configs) as producer:
        for record in reader.records(lines()):
            future = producer.send(topic, on_delivery=delivered, **record)
            if sync:
                future.result()
        producer.flush()
    if failures:
        raise OdradekError(f"{len(failures)} records were not delivered")
