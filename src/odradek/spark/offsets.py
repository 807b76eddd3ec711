"""Offsets of many partitions: as a dict, as the connector's JSON, and as "where to start".

An offset here is the next one to read, as in Kafka's consumer positions: `{("t", 0): 6}` says that offset 5
was the last one taken. Pure: nothing here talks to a broker.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from odradek.client.types import TopicPartition
from odradek.wire.primitives import uuid_from_text

LATEST = -1
"""In an offsets JSON, and as a `ListOffsets` timestamp: the end of the partition."""
EARLIEST = -2
"""In an offsets JSON, and as a `ListOffsets` timestamp: the first offset that is still there."""


MOST_OFFSET = 2**63 - 1
"""As Kafka writes offsets and times: 64 bits."""
MOST_PARTITION = 2**31 - 1


Offsets = dict[TopicPartition, int]
"""Next offset to read, by partition."""


_ID_MARK = "#"
"""Between a topic's name and its id in a checkpoint; no name has it."""

_BEGAN = "began:"
"""Before the offsets at which a query began, where a topic id would be: `clicks#began:0=17,1=4`."""


@dataclass(frozen=True)
class SourceOffset:
    """The position of a query: the next offset of each partition, and of which topics these are offsets.

    Attributes:
        topic_ids: by topic, as Kafka writes them. A topic whose id is not known is not in it: its broker has
            none (before Kafka 2.8), or the checkpoint was written by Spark's Kafka connector. One that is
            deleted and made again has another id, and offsets of the one mean nothing in the other.
        began: of the end of a query's first batch, where that batch begins; else empty. Spark writes no
            batch's start into the checkpoint, and of all others it is the end of the one before.
    """

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    began: Mapping[TopicPartition, int] = field(default_factory=dict)

    def recreated(self, later: "SourceOffset") -> frozenset[str]:
        """The topics that have another id in `later`."""
        ids = later.topic_ids
        return frozenset(
            topic for topic, topic_id in self.topic_ids.items() if ids.get(topic, topic_id) != topic_id
        )

    def is_past(self, later: "SourceOffset") -> bool:
        """Return whether a partition is not in `later`, or ends there before its offset here."""
        return any(later.offsets.get(tp, -1) < offset for tp, offset in self.offsets.items())


@dataclass(frozen=True)
class Earliest:
    """From the first offset that each partition still has."""


@dataclass(frozen=True)
class Latest:
    """From (or to) the end that each partition has when it is asked."""


@dataclass(frozen=True)
class AtOffsets:
    """At these offsets, one for every partition; `EARLIEST` and `LATEST` stand for themselves."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class AtTimestamp:
    """At the first record of each partition whose timestamp is not before `timestamp_ms` (epoch)."""

    timestamp_ms: int


@dataclass(frozen=True)
class AtTimestamps:
    """As `AtTimestamp`, with its own timestamp (epoch ms) for every partition."""

    timestamps: Mapping[TopicPartition, int]


Limit = Earliest | Latest | AtOffsets | AtTimestamp | AtTimestamps
"""One end of what is read, before brokers have been asked."""


def offsets_from_json(text: str) -> Offsets:
    """The offsets in `{"topicA":{"0":23,"1":-1}}`.

    Raises:
        ValueError: `text` is anything else; shows an example.
    """
    return _partition_numbers(text, 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}')


def timestamps_from_json(text: str) -> dict[TopicPartition, int]:
    """The timestamps (epoch ms) in `{"topicA":{"0":1700000000000}}`.

    Raises:
        ValueError: `text` is anything else; shows an example.
    """
    return _partition_numbers(
        text, 'Expected e.g. {"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789}}'
    )


def partitions_from_json(text: str) -> list[TopicPartition]:
    """The partitions in `{"topicA":[0,1]}`, sorted.

    Raises:
        ValueError: `text` is anything else; shows an example.
    """
    expectation = 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}'
    parsed = _parse(text, expectation)
    partitions: set[TopicPartition] = set()
    for topic, numbers in parsed.items():
        if not isinstance(numbers, list) or not all(_is_count(number) for number in numbers):
            raise ValueError(f"{expectation}, got {text}")
        if any(number > MOST_PARTITION for number in numbers):
            raise ValueError(
                f"{topic}-{max(numbers)}: partitions are numbers up to {MOST_PARTITION}, got {text}"
            )
        partitions.update(TopicPartition(topic, number) for number in numbers)
    return sorted(partitions)


def to_spark(place: SourceOffset) -> dict[str, dict[str, int]]:
    """As the nested dict that Spark writes into its checkpoint, sorted.

    Topic ids, and where a query began, are topics without partitions,
    `{"clicks":{"0":6},"clicks#began:0=2":{},"clicks#ipB6yNIkQdu9ZDXNDDHZXw":{}}`: the Kafka connector reads
    the partitions of every topic in this JSON, and of those it finds none.

    Spark takes two offsets for equal when their JSON texts are; hence the order.
    """
    nested: dict[str, dict[str, int]] = {}
    for tp in sorted(place.offsets):
        nested.setdefault(tp.topic, {})[str(tp.partition)] = place.offsets[tp]
    began: dict[str, list[str]] = {}
    for tp in sorted(place.began):
        began.setdefault(tp.topic, []).append(f"{tp.partition}={place.began[tp]}")
    for topic in list(nested):
        if topic in place.topic_ids:
            nested[f"{topic}{_ID_MARK}{place.topic_ids[topic]}"] = {}
    for topic, starts in began.items():
        nested[f"{topic}{_ID_MARK}{_BEGAN}{','.join(starts)}"] = {}
    return nested


def from_spark(nested: Mapping[str, Mapping[str, int]]) -> SourceOffset:
    """The inverse of `to_spark`; a checkpoint of Spark's Kafka connector reads the same, without the rest.

    Raises:
        ValueError: a topic id, or a beginning, is none.
    """
    offsets: Offsets = {}
    topic_ids: dict[str, str] = {}
    began: Offsets = {}
    for name, partitions in nested.items():
        topic, mark, suffix = name.partition(_ID_MARK)
        if suffix.startswith(_BEGAN):
            for pair in suffix.removeprefix(_BEGAN).split(","):
                partition, _, offset = pair.partition("=")
                began[TopicPartition(topic, int(partition))] = int(offset)
        elif mark:
            uuid_from_text(suffix)
            topic_ids[topic] = suffix
        for number, next_offset in partitions.items():
            offsets[TopicPartition(topic, int(number))] = int(next_offset)
    return SourceOffset(offsets, topic_ids, began)


def show(partitions: Iterable[TopicPartition]) -> str:
    """Partitions for an error message: `[a-0, a-1]`."""
    return "[" + ", ".join(str(tp) for tp in sorted(partitions)) + "]"


def _partition_numbers(text: str, expectation: str) -> dict[TopicPartition, int]:
    parsed = _parse(text, expectation)
    numbers: dict[TopicPartition, int] = {}
    for topic, partitions in parsed.items():
        if not isinstance(partitions, dict):
            raise ValueError(f"{expectation}, got {text}")
        for partition, number in partitions.items():
            if not (partition.isascii() and partition.isdigit()) or not _is_integer(number):
                raise ValueError(f"{expectation}, got {text}")
            if int(partition) > MOST_PARTITION or abs(number) > MOST_OFFSET:
                raise ValueError(
                    f"{topic}-{partition} at {number}: partitions are numbers up to {MOST_PARTITION}, "
                    f"offsets and times up to {MOST_OFFSET}; got {text}"
                )
            numbers[TopicPartition(topic, int(partition))] = number
    return numbers


def _parse(text: str, expectation: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError:
        raise ValueError(f"{expectation}, got {text}") from None
    if not isinstance(parsed, dict):
        raise ValueError(f"{expectation}, got {text}")
    return parsed


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
