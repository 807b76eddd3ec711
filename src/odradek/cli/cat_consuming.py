"""Printing records, for `odradek cat`: which ones, until when, and as what."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from odradek.cli.cat_formats import (
    NULL,
    CatFormatError,
    Deserialize,
    Range,
    json_object,
    pack_deserializer,
    parse_format,
)
from odradek.cli.tool import NotedSignals
from odradek.errors import OdradekError

if TYPE_CHECKING:
    from odradek import Admin, Consumer, ConsumerRecord, TopicPartition

_POLL_MS = 200.0


def consume(
    configs: Mapping[str, Any], topics: Sequence[str], part: Range, options: Mapping[str, Any]
) -> None:
    """Print records of one topic, or in a group of several.

    Args:
        configs: of the client.
        topics: which; with a group also `^expressions`.
        part: which records, without a group.
        options: those of the command line.

    Raises:
        OdradekError: there is no such topic or partition, or a record cannot be printed.
    """
    from odradek import Admin, Consumer

    writer = _Writer(options)
    # Without a group it is for what retention has deleted meanwhile; a group begins at the end, as with kcat.
    earliest = options["group"] is None or "beginning" in options["offsets"]
    reading = {"auto_offset_reset": "earliest" if earliest else "latest"}
    more: dict[str, Any] = {"group_id": options["group"]} if options["group"] is not None else {}
    with NotedSignals() as signals, Consumer(**reading | dict(configs) | more) as consumer:
        if options["group"] is None:
            with Admin(**configs) as admin:
                writer.leaders = _leaders(admin, topics[0], options["partition"])
                stops = _assign(consumer, admin, writer.leaders, part, ends=options["ends"])
            _read(consumer, writer, signals, stops, options)
        else:
            _subscribe(consumer, topics)
            _read_group(consumer, writer, signals, options)
        writer.flush()
    signals.leave()


def _leaders(admin: Admin, topic: str, partition: int | None) -> dict[TopicPartition, int]:
    """The partitions to read, with their leaders.

    Raises:
        OdradekError: there is no such topic or partition.
    """
    from odradek import TopicPartition

    described = admin.describe_topics()
    if topic not in described:
        raise OdradekError(f"topic {topic!r} does not exist")
    leaders = {TopicPartition(topic, p.partition): p.leader for p in described[topic].partitions}
    if partition is None:
        return leaders
    chosen = TopicPartition(topic, partition)
    if chosen not in leaders:
        raise OdradekError(
            f"Topic {topic} (with partitions 0..{len(leaders) - 1}): partition {partition} does not exist"
        )
    return {chosen: leaders[chosen]}


def _assign(
    consumer: Consumer, admin: Admin, leaders: Mapping[TopicPartition, int], part: Range, *, ends: bool
) -> dict[TopicPartition, int]:
    """Stand at the beginning of the range; return where partitions end, if they do."""
    partitions = list(leaders)
    consumer.assign(partitions)
    end_offsets = consumer.end_offsets(partitions)
    if part.start_ms is not None:
        offsets = admin.list_offsets(dict.fromkeys(partitions, part.start_ms))
        starts = {tp: at.offset if at.offset >= 0 else end_offsets[tp] for tp, at in offsets.items()}
    elif isinstance(part.start, int) and part.start >= 0:
        starts = dict.fromkeys(partitions, part.start)
    elif isinstance(part.start, int):
        first = consumer.beginning_offsets(partitions)
        starts = {tp: max(first[tp], end_offsets[tp] + part.start) for tp in partitions}
    elif part.start == "end":
        starts = end_offsets
    elif part.start == "stored":
        starts = {}
    else:
        starts = consumer.beginning_offsets(partitions)
    for tp, offset in starts.items():
        consumer.seek(tp, offset)
    stops = dict(end_offsets) if ends else {}
    if part.stop_ms is not None:
        for tp, at in admin.list_offsets(dict.fromkeys(partitions, part.stop_ms)).items():
            if at.offset >= 0:
                stops[tp] = min(at.offset, stops.get(tp, at.offset))
    return stops


def _read(
    consumer: Consumer,
    writer: _Writer,
    signals: NotedSignals,
    stops: Mapping[TopicPartition, int],
    options: Mapping[str, Any],
) -> None:
    """Print until all partitions are at their stops, the count is reached, or a signal came."""
    left = consumer.assignment()
    while signals.ended_by is None:
        for tp in [tp for tp in left if tp in stops and consumer.position(tp) >= stops[tp]]:
            left.discard(tp)
            consumer.pause(tp)
            if not options["quiet"]:
                writer.flush()
                end = ": exiting" if not left else ""
                click.echo(
                    f"% Reached end of topic {tp.topic} [{tp.partition}] at offset {stops[tp]}{end}", err=True
                )
        if not left:
            return
        for record in consumer.poll(_POLL_MS):
            if record.offset >= stops.get((record.topic, record.partition), record.offset + 1):  # type: ignore[call-overload]
                continue
            writer.write(record)
            if writer.count == options["most"]:
                return
        writer.flush()


def _subscribe(consumer: Consumer, topics: Sequence[str]) -> None:
    """Subscribe to topics and `^expressions`."""
    if not any(topic.startswith("^") for topic in topics):
        consumer.subscribe(list(topics))
        return
    parts = (topic[1:] + ".*" if topic.startswith("^") else re.escape(topic) for topic in topics)
    consumer.subscribe(pattern=re.compile("|".join(f"(?:{part})" for part in parts)))


def _read_group(
    consumer: Consumer, writer: _Writer, signals: NotedSignals, options: Mapping[str, Any]
) -> None:
    """Print what the group assigns, until nothing is left (`-e`), the count is reached, or a signal came."""
    most = options["most"]
    while signals.ended_by is None and (most is None or writer.count < most):
        # No more than is to be printed: what is left over would count as read.
        room = {} if most is None else {"max_records": most - writer.count}
        records = consumer.poll(_POLL_MS, **room)
        for record in records:
            writer.write(record)
        # Before the consumer is closed: what could not be printed is not committed.
        writer.flush()
        assigned = consumer.assignment()
        if options["ends"] and assigned and not records:
            ends = consumer.end_offsets(assigned)
            if all(consumer.position(tp) >= end for tp, end in ends.items()):
                return


def _out() -> BinaryIO:
    return sys.stdout.buffer


@dataclass
class _Writer:
    """Prints records as the options say.

    Attributes:
        count: how many.
        leaders: partition → broker, as far as known.
    """

    options: Mapping[str, Any]
    count: int = 0
    leaders: dict[TopicPartition, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        options = self.options
        self._delimiter: bytes = options["delimiter"]
        self._deserializers = _deserializers(options["serdes"], options["registry"])
        null = NULL if options["nulls"] else b""
        if options["format_text"] is not None:
            self._print = parse_format(options["format_text"], null)
            return
        value, key = parse_format("%s", null), parse_format("%k", null)
        offset, between = parse_format("%o", null), options["key_delimiter"]

        def print_default(record: ConsumerRecord) -> bytes:
            parts = [key(record), between] if between is not None else []
            if options["with_offset"]:
                parts += [offset(record), between if between is not None else b""]
            return b"".join([*parts, value(record), self._delimiter])

        self._print = print_default

    def write(self, record: ConsumerRecord) -> None:
        """Print one.

        Raises:
            OdradekError: it cannot be deserialized; with `-J` the object says so.
        """
        self.count += 1
        more: dict[str, Any] = {}
        for name, deserialize in self._deserializers.items():
            data = getattr(record, name)
            if data is None:
                continue
            label = "payload" if name == "value" else name
            try:
                text = deserialize(data)
            except OdradekError as error:
                if not self.options["as_json"]:
                    raise OdradekError(
                        f"Failed to format message in {record.topic} [{record.partition}] at offset "
                        f"{record.offset}: {name} {error}"
                    ) from error
                more |= {label: None, f"{label}_error": str(error)}
                continue
            record = record._replace(key=text) if name == "key" else record._replace(value=text)
            if deserialize.is_json and self.options["as_json"]:
                more[label] = json.loads(text)
        if self.options["as_json"]:
            broker = self.leaders.get((record.topic, record.partition))  # type: ignore[call-overload]
            _out().write(json_object(record, broker, more) + self._delimiter)
        else:
            _out().write(self._print(record))
        if self.options["unbuffered"]:
            self.flush()

    def flush(self) -> None:
        """Let what was printed be seen."""
        _out().flush()


class _Deserializer:
    """One of `-s`; `is_json`: whether it makes JSON of bytes."""

    def __init__(self, call: Deserialize, *, is_json: bool) -> None:
        self._call = call
        self.is_json = is_json

    def __call__(self, data: bytes) -> bytes:
        return self._call(data)


def _deserializers(words: Sequence[str], registry: str | None) -> dict[str, _Deserializer]:
    """The deserializers of `-s`: for the key, the value, or both."""
    chosen: dict[str, _Deserializer] = {}
    for word in words:
        name, equals, text = word.partition("=")
        names = [name] if equals and name in ("key", "value") else ["key", "value"]
        text = text if equals and name in ("key", "value") else word
        if text == "avro":
            chosen |= {part: _Deserializer(_avro(registry, part), is_json=True) for part in names}
        else:
            chosen |= {part: _Deserializer(pack_deserializer(text), is_json=False) for part in names}
    return chosen


def _avro(registry: str | None, name: str) -> Deserialize:
    """JSON of Avro records whose schemas a registry has."""
    if registry is None:
        raise click.UsageError("-s avro needs -r URL, the schema registry's")
    from odradek.serdes import AvroDeserializer, SchemaRegistryClient, SerializationContext

    deserialize = AvroDeserializer(SchemaRegistryClient(url=registry))
    context = SerializationContext("", name)

    def call(data: bytes) -> bytes:
        try:
            value = deserialize(data, context)
        except ValueError as error:  # no bytes of a registry's serializer
            raise CatFormatError(str(error)) from error
        return json.dumps(value, ensure_ascii=False, default=_plain, separators=(",", ":")).encode()

    return call


def _plain(value: Any) -> Any:
    """A form for what JSON has none for: bytes as Latin-1, as Avro's own JSON has them; the rest as text."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
