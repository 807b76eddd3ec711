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


Offsets = dict[TopicPartition, int]
"""Next offset to read, by partition."""

NO_TOPIC_ID = bytes(16)
"""As brokers without topic ids say it."""

_ID_MARK = "#"
"""Between a topic's name and its id in a checkpoint; no name has it."""


@dataclass(frozen=True)
class SourceOffset:
    """The position of a query: the next offset of each partition, and of which topics these are offsets.

    Attributes:
        topic_ids: by topic, as Kafka writes them. A topic whose id is not known is not in it: its broker has
            none (before Kafka 2.8), or the checkpoint was written by Spark's Kafka connector. One that is
            deleted and made again has another id, and offsets of the one mean nothing in the other.
    """

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def recreated(self, later: "SourceOffset") -> frozenset[str]:
        """The topics that have another id in `later`."""
        ids = later.topic_ids
        return frozenset(topic for topic, one in self.topic_ids.items() if ids.get(topic, one) != one)

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

    Raises `ValueError`, showing an example, if `text` is anything else.
    """
    return _partition_numbers(text, 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}')


def timestamps_from_json(text: str) -> dict[TopicPartition, int]:
    """The timestamps (epoch ms) in `{"topicA":{"0":1700000000000}}`.

    Raises `ValueError`, showing an example, if `text` is anything else.
    """
    return _partition_numbers(
        text, 'Expected e.g. {"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789}}'
    )


def partitions_from_json(text: str) -> list[TopicPartition]:
    """The partitions in `{"topicA":[0,1]}`, sorted.

    Raises `ValueError`, showing an example, if `text` is anything else.
    """
    wanted = 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}'
    parsed = _parse(text, wanted)
    found: set[TopicPartition] = set()
    for topic, numbers in parsed.items():
        if not isinstance(numbers, list) or not all(_is_count(number) for number in numbers):
            raise ValueError(f"{wanted}, got {text}")
        found.update(TopicPartition(topic, number) for number in numbers)
    return sorted(found)


def to_spark(place: SourceOffset) -> dict[str, dict[str, int]]:
    """As the nested dict that Spark writes into its checkpoint, sorted.

    Topic ids are topics without partitions, `{"clicks":{"0":6},"clicks#ipB6yNIkQdu9ZDXNDDHZXw":{}}`: the
    Kafka connector reads the partitions of every topic in this JSON, and of those it finds none.

    Spark takes two offsets for equal when their JSON texts are; hence the order.
    """
    nested: dict[str, dict[str, int]] = {}
    for tp in sorted(place.offsets):
        nested.setdefault(tp.topic, {})[str(tp.partition)] = place.offsets[tp]
    for topic in list(nested):
        if topic in place.topic_ids:
            nested[f"{topic}{_ID_MARK}{place.topic_ids[topic]}"] = {}
    return nested


def from_spark(nested: Mapping[str, Mapping[str, int]]) -> SourceOffset:
    """The inverse of `to_spark`; a checkpoint of Spark's Kafka connector reads the same, without ids.

    Raises `ValueError` for a topic id that is none.
    """
    offsets: Offsets = {}
    topic_ids: dict[str, str] = {}
    for name, partitions in nested.items():
        topic, mark, topic_id = name.partition(_ID_MARK)
        if mark:
            uuid_from_text(topic_id)
            topic_ids[topic] = topic_id
        for partition, offset in partitions.items():
            offsets[TopicPartition(topic, int(partition))] = int(offset)
    return SourceOffset(offsets, topic_ids)


def show(partitions: Iterable[TopicPartition]) -> str:
    """Partitions for an error message: `[a-0, a-1]`."""
    return "[" + ", ".join(str(tp) for tp in sorted(partitions)) + "]"


def _partition_numbers(text: str, wanted: str) -> dict[TopicPartition, int]:
    parsed = _parse(text, wanted)
    numbers: dict[TopicPartition, int] = {}
    for topic, partitions in parsed.items():
        if not isinstance(partitions, dict):
            raise ValueError(f"{wanted}, got {text}")
        for partition, number in partitions.items():
            if not (partition.isascii() and partition.isdigit()) or not _is_integer(number):
                raise ValueError(f"{wanted}, got {text}")
            numbers[TopicPartition(topic, int(partition))] = number
    return numbers


def _parse(text: str, wanted: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError:
        raise ValueError(f"{wanted}, got {text}") from None
    if not isinstance(parsed, dict):
        raise ValueError(f"{wanted}, got {text}")
    return parsed


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
